/** What endpoints that come and go leave behind, over 100,000 of them: `npm run proof:core`. A minute or two. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const { status } = spawnSync(
  process.execPath,
  ['node_modules/vitest/vitest.mjs', 'run', '--project=integration', 'test/integration/core/lifetime.test.ts'],
  {
    cwd: fileURLToPath(new URL('../../..', import.meta.url)),
    env: { ...process.env, EVENKEEL_PROOF: '1' },
    stdio: 'inherit',
  },
);
process.exitCode = status ?? 1;
