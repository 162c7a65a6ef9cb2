import type { Endpoint } from '../endpoint/endpoint.js';

/**
 * The endpoints to which calls would go, by the rules of the `conditions` stage: ready ones, otherwise those that are terminating but still
 * serve.
 */
export function usable(endpoints: readonly Endpoint[]): readonly Endpoint[] {
  const ready = endpoints.filter(({ conditions }) => conditions.ready);
  if (ready.length > 0) return ready;
  return endpoints.filter(({ conditions }) => conditions.serving && conditions.terminating);
}

/** Describes an endpoint's conditions in words. */
export function conditionsInWords({ conditions: { ready, serving, terminating } }: Endpoint): string {
  if (ready) return 'ready';
  if (!terminating) return 'not ready';
  return serving ? 'terminating, still serving' : 'terminating';
}
