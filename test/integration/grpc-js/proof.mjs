/** Faults and a rolling update at full counts: `npm run proof:grpc`. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const vitest = fileURLToPath(new URL('../../../node_modules/vitest/vitest.mjs', import.meta.url));
const files = ['faults', 'rollout'].map((name) => `test/integration/grpc-js/${name}.test.ts`);
const child = spawn(process.execPath, [vitest, 'run', ...files], {
  cwd: fileURLToPath(new URL('../../..', import.meta.url)),
  env: { ...process.env, EVENKEEL_PROOF: '1' },
  stdio: 'inherit',
});
child.on('exit', (code) => {
  process.exitCode = code ?? 1;
});
