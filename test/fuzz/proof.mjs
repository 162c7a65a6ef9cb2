/**
 * A million cases of each input somebody else writes: slices, answers of DNS, load reports, heads of HTTP. `npm run proof:fuzz`,
 * some ten minutes. `npm test` runs ten thousand of each. A failure names the seed of its case.
 *
 *   npm run proof:fuzz -- dns reports    only those
 */
import { chosenOf, prove } from '../support/prove.mjs';

const chosen = chosenOf(['slices', 'dns', 'reports', 'http-heads'], 'input');
process.exitCode = prove(
  chosen.map((name) => `test/fuzz/${name}.test.ts`),
  ['--project=unit', '--reporter=verbose'],
);
