/**
 * What is promised for node:http, at full counts: `npm run proof:node-http`. A few minutes on two cores, best with
 * nothing else to do; figures are printed.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const files = ['rollout', 'held-rollout', 'keep-alive', 'chaos'].map(
  (name) => `test/integration/node-http/${name}.test.ts`,
);
const { status } = spawnSync(
  process.execPath,
  ['node_modules/vitest/vitest.mjs', 'run', '--project=integration', ...files],
  {
    cwd: fileURLToPath(new URL('../../..', import.meta.url)),
    env: { ...process.env, EVENKEEL_PROOF: '1' },
    stdio: 'inherit',
  },
);
process.exitCode = status ?? 1;
