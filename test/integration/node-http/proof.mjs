/**
 * What is promised for node:http, at full counts: `npm run proof:node-http`. A few minutes on two cores, best with
 * nothing else to do; figures are printed.
 */
import { prove } from '../../support/prove.mjs';

const files = ['rollout', 'rollout-waits', 'keep-alive', 'chaos'];
process.exitCode = prove(files.map((name) => `test/integration/node-http/${name}.test.ts`));
