/** `npm run board`: draws the board, the page and `top` over a minute and a half of a rolling update, a slow pod and a broken one. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../../..', import.meta.url));

const { status } = spawnSync(
  process.execPath,
  ['node_modules/vitest/vitest.mjs', 'run', '--project=integration', 'test/integration/metrics/board/board.test.ts'],
  { cwd: root, env: { ...process.env, EVENKEEL_DRAW: '1' }, stdio: 'inherit' },
);
process.exit(status ?? 1);
