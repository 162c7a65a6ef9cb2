/** The load and failover tests at full counts, with their figures: `npm run proof:pg`. Needs PostgreSQL. */
import { prove } from '../../support/prove.mjs';

const files = ['load', 'roles'];
process.exitCode = prove(
  files.map((name) => `test/integration/pg/${name}.test.ts`),
  ['--project=integration', '--testTimeout=300000'],
);
