/** 500 confirmed messages a second through a rolling restart of three brokers: `npm run proof:amqp`. Seven minutes. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const { status } = spawnSync(
  process.execPath,
  ['node_modules/vitest/vitest.mjs', 'run', '--project=integration', 'test/integration/amqp/rollout.test.ts'],
  {
    cwd: fileURLToPath(new URL('../../..', import.meta.url)),
    env: { ...process.env, EVENKEEL_PROOF: '1' },
    stdio: 'inherit',
  },
);
process.exitCode = status ?? 1;
