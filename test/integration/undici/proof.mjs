/**
 * What is promised for HTTP, at full counts: `npm run proof:http`. About half an hour on two cores, best with nothing
 * else to do; figures are printed.
 *
 *   npm run proof:http -- kill keep-alive    only those files
 */
import { chosenOf, prove, runInRoot } from '../../support/prove.mjs';

const chosen = chosenOf(
  [
    'rollout',
    'rollout-waits',
    'streams',
    'drain',
    'kill',
    'keep-alive',
    'recycled-address',
    'newcomer',
    'faults',
    'chaos',
  ],
  'proof',
);
let code = prove(chosen.map((name) => `test/integration/undici/${name}.test.ts`));
// HTTP/2 needs undici 8, which needs Node 22: a row of the matrix.
if (chosen.includes('rollout')) code = runInRoot(['scripts/matrix.mjs', '22', 'undici-8-h2-rollout']) || code;
process.exitCode = code;
