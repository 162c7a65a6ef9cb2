/**
 * The simulator by hand.
 *
 *   node test/simulation/run.mjs            prints tables and draws docs/images/simulation-*.svg
 *   node test/simulation/run.mjs --proof    the tests at full counts: five seeds, a few minutes
 *   node test/simulation/run.mjs --scale    1,000 clients and 1,000 servers, and how long that takes
 */
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

const [option, ...others] = process.argv.slice(2);
if (![undefined, '--proof', '--scale'].includes(option) || others.length > 0) {
  console.error(
    'There are two options: --proof and --scale. Without one, tables are printed and the pictures in docs/images are drawn.',
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
} else if (option === '--scale' && process.execArgv.length === 0) {
  // A million connections take 4 GiB; with V8's small space for new objects it would copy a part of them again and again.
  const memory = ['--max-old-space-size=8192', '--max-semi-space-size=128'];
  const self = fileURLToPath(import.meta.url);
  spawn(process.execPath, [...memory, self, option], { cwd: root, stdio: 'inherit' }).on('close', (code) => {
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
    if (option === '--scale') await (await server.ssrLoadModule('/test/simulation/scale.ts')).scale();
    else {
      const { report } = await server.ssrLoadModule('/test/simulation/report.ts');
      await report(join(root, 'docs/images'));
    }
  } finally {
    await server.close();
  }
}
