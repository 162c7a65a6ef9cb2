/** What becomes of a shared watch while threads and primaries are blocked or end without a word: `npm run proof:sharing`. A minute. */
import { prove } from '../../support/prove.mjs';

process.exitCode = prove(['test/integration/kubernetes/sharing.test.ts']);
