/**
 * The simulator by hand.
 *
 *   node test/simulation/run.mjs            prints tables and draws docs/images/simulation-*.svg
 *   node test/simulation/run.mjs --proof    the tests at full counts: five seeds, a few minutes
 */
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

const [option, ...others] = process.argv.slice(2);
if ((option !== undefined && option !== '--proof') || others.length > 0) {
  console.error(
    'There is one option: --proof. Without it, tables are printed and the pictures in docs/images are drawn.',
  );
  process.exit(2);
}
if (option === '--proof') {
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  const args = [vitest, 'run', '--project=simulation', '--testTimeout=600000'];
  const env = { ...process.env, EVENKEEL_PROOF: '1' };
  spawn(process.execPath, args, { cwd: root, stdio: 'inherit', env }).on('close', (code) => {
    process.exitCode = code ?? 1;
  });
} else {
  // TypeScript without a build: the loader of the test runner.
  const { createViteServer } = await import('vitest/node');
  const server = await createViteServer({
    root,
    configFile: false,
    appType: 'custom',
    logLevel: 'error',
    server: { middlewareMode: true, watch: null, hmr: false, ws: false },
    optimizeDeps: { noDiscovery: true },
  });
  try {
    const { report } = await server.ssrLoadModule('/test/simulation/report.ts');
    await report(join(root, 'docs/images'));
  } finally {
    await server.close();
  }
}
