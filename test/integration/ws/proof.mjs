/** 1,000 WebSockets over 10 pods through a rolling update and a scale-out: `npm run proof:longlived`. Six minutes. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const { status } = spawnSync(
  process.execPath,
  ['node_modules/vitest/vitest.mjs', 'run', '--project=integration', 'test/integration/ws/rollout.test.ts'],
  {
    cwd: fileURLToPath(new URL('../../..', import.meta.url)),
    env: { ...process.env, EVENKEEL_PROOF: '1' },
    stdio: 'inherit',
  },
);
process.exitCode = status ?? 1;
