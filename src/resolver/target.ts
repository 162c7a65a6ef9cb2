import { optionError } from '../runtime/check.js';
import type { Resolver } from './resolver.js';

/** A resolver from a target string. Throws EVENKEEL_OPTION. */
export function resolverFrom(target: string): Resolver {
  throw optionError('resolver', 'a target such as orders.shop:8080', target);
}
