/** The load and fault tests at full counts, with their figures: `npm run proof:mysql`. Needs MariaDB. */
import { prove } from '../../support/prove.mjs';

const files = ['cluster-load', 'cluster-faults', 'max-connections'];
process.exitCode = prove(
  files.map((name) => `test/integration/mysql2/${name}.test.ts`),
  ['--project=integration', '--testTimeout=300000'],
);
