/**
 * Runs the integration tests on every supported Node with every supported undici.
 *
 *   node scripts/matrix.mjs              all combinations
 *   node scripts/matrix.mjs 22 24:8      Node 22 with each undici, Node 24 with undici 8
 *
 * Nodes other than this one come from the npm package `node`.
 */
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const cells = [20, 22, 24, 26]
  .flatMap((node) => [7, 8].map((undici) => ({ node, undici })))
  // undici 8 needs Node 22.19.
  .filter(({ node, undici }) => node > 20 || undici === 7);

const wanted = process.argv.slice(2);
const chosen = cells.filter(
  ({ node, undici }) => wanted.length === 0 || wanted.includes(`${node}`) || wanted.includes(`${node}:${undici}`),
);
if (chosen.length === 0) {
  console.error(`No such combination. There are: ${cells.map(({ node, undici }) => `${node}:${undici}`).join(', ')}`);
  process.exit(2);
}

/** @param {{ node: number, undici: number }} cell */
async function run({ node, undici }) {
  const vitest = [
    join(root, 'node_modules/vitest/vitest.mjs'),
    'run',
    '-c',
    'vitest.matrix.config.ts',
    '--reporter=dot',
  ];
  const own = Number(process.versions.node.split('.')[0]) === node;
  const [command, args] = own ? [process.execPath, vitest] : ['npx', ['-y', '-p', `node@${node}`, 'node', ...vitest]];
  const env = { ...process.env, EVENKEEL_UNDICI: String(undici), NO_COLOR: '1', FORCE_COLOR: undefined };
  const started = performance.now();
  const child = spawn(command, args, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk) => {
      output += chunk;
    });
  }
  const code = await new Promise((resolve) => {
    child.on('error', (error) => {
      output += error.message;
      resolve(1);
    });
    child.on('close', resolve);
  });
  const tests = /^\s*Tests\s+(.*)$/m.exec(output)?.[1] ?? 'no tests';
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(`${code === 0 ? 'ok    ' : 'FAILED'}  Node ${node}, undici ${undici}  ${seconds} s  ${tests}`);
  if (code !== 0) console.log(output.trimEnd());
  return code === 0;
}

let failed = 0;
for (const cell of chosen) if (!(await run(cell))) failed++;
console.log(`${chosen.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
