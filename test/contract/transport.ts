import { describe, it } from 'vitest';
import { transportContract as contract, type TransportContract } from '../../src/testing/transport-contract.js';

/** The contract suite, under vitest. */
export function transportContract<C>(subject: TransportContract<C>): void {
  contract({ describe, it }, subject);
}
