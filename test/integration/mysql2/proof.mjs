/** The load and fault tests at full counts, with their figures: `npm run proof:mysql`. Needs MariaDB. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const vitest = fileURLToPath(new URL('../../../node_modules/vitest/vitest.mjs', import.meta.url));
const files = ['cluster-load', 'cluster-faults', 'max-connections'].map(
  (name) => `test/integration/mysql2/${name}.test.ts`,
);
const child = spawn(process.execPath, [vitest, 'run', '--testTimeout=300000', ...files], {
  cwd: fileURLToPath(new URL('../../..', import.meta.url)),
  env: { ...process.env, EVENKEEL_PROOF: '1' },
  stdio: 'inherit',
});
child.on('exit', (code) => {
  process.exitCode = code ?? 1;
});
