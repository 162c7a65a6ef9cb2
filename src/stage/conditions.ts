import type { EndpointSet } from '../endpoint/endpoint-set.js';
import { checkNoOptions } from '../runtime/check.js';
import { described } from '../runtime/described.js';
import type { StageFactory } from './stage.js';

/**
 * Keeps the endpoints that Kubernetes considers usable: the ready ones, or if there are none, those that are terminating but still serving.
 * This is decided over the whole set.
 */
export const conditions = (...none: []): StageFactory => {
  checkNoOptions('conditions', none);
  return described(() => ({ apply: usable }), 'conditions');
};

function usable(set: EndpointSet): EndpointSet {
  const ready = set.filter(({ endpoint }) => endpoint.conditions.ready);
  if (ready.size > 0) return ready;
  return set.filter(({ endpoint }) => endpoint.conditions.serving && endpoint.conditions.terminating);
}
