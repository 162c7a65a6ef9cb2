/** Faults and a rolling update at full counts: `npm run proof:grpc`. */
import { prove } from '../../support/prove.mjs';

process.exitCode = prove(['faults', 'rollout'].map((name) => `test/integration/grpc-js/${name}.test.ts`));
