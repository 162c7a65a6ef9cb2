import type { EndpointSet } from '../endpoint/endpoint-set.js';
import { checkNoOptions } from '../runtime/check.js';
import type { StageFactory } from './stage.js';

/**
 * What Kubernetes means by usable (U1–U3): the ready endpoints; if and only if there is none, those that are
 * terminating but still serving; never any other. Decided over the whole set (U4).
 */
export const conditions = (...none: []): StageFactory => {
  checkNoOptions('conditions', none);
  return () => ({ apply: usable });
};

function usable(set: EndpointSet): EndpointSet {
  const ready = set.filter(({ endpoint }) => endpoint.conditions.ready);
  if (ready.size > 0) return ready;
  return set.filter(({ endpoint }) => endpoint.conditions.serving && endpoint.conditions.terminating);
}
