/**
 * Checks the workflows of the hosted CI by the published schema of GitHub's workflows. The validator, which holds the schema, is
 * installed into a temporary folder.
 *
 *   npm run proof -- workflows
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { npm } from './pack.mjs';

const VALIDATOR = '@action-validator/core@0.6.0';
const workflows = join(import.meta.dirname, '../.github/workflows');

const folder = mkdtempSync(join(tmpdir(), 'evenkeel-workflows-'));
try {
  npm(['install', '--prefix', folder, '--no-audit', '--no-fund', '--ignore-scripts', VALIDATOR]);
  writeFileSync(
    join(folder, 'validate.cjs'),
    `const { validateWorkflow } = require('@action-validator/core');
     process.stdout.write(JSON.stringify(validateWorkflow(require('fs').readFileSync(0, 'utf8'))));`,
  );
  let failed = 0;
  for (const file of readdirSync(workflows)) {
    const input = readFileSync(join(workflows, file), 'utf8');
    const { status, stdout, stderr } = spawnSync(process.execPath, ['validate.cjs'], {
      cwd: folder,
      input,
      encoding: 'utf8',
    });
    const errors = status === 0 ? JSON.parse(stdout).errors : [stderr];
    if (errors.length > 0) failed += 1;
    console.log(`${errors.length === 0 ? 'ok    ' : 'FAILED'}  ${file}`);
    for (const error of errors) console.log(`          ${JSON.stringify(error)}`);
  }
  process.exitCode = failed === 0 ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
