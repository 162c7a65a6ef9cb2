/** 1,000 WebSockets over 10 pods through a rolling update and a scale-out: `npm run proof:longlived`. Six minutes. */
import { prove } from '../../support/prove.mjs';

process.exitCode = prove(['test/integration/ws/rollout.test.ts']);
