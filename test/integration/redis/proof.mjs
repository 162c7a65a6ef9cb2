/** The load and failover tests at full counts, with their figures: `npm run proof:redis`. Needs Redis. */
import { prove } from '../../support/prove.mjs';

process.exitCode = prove(
  ['test/integration/redis/failures.test.ts'],
  ['--project=integration', '--testTimeout=300000'],
);
