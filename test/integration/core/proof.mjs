/** What endpoints that come and go leave behind, over 100,000 of them: `npm run proof:core`. A minute or two. */
import { prove } from '../../support/prove.mjs';

process.exitCode = prove(['test/integration/core/lifetime.test.ts']);
