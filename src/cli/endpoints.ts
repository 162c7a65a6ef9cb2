import type { Endpoint } from '../endpoint/endpoint.js';

/** The endpoints calls would go to, by the rules of the `conditions` stage: ready ones, otherwise those terminating but serving. */
export function usable(endpoints: readonly Endpoint[]): readonly Endpoint[] {
  const ready = endpoints.filter(({ conditions }) => conditions.ready);
  if (ready.length > 0) return ready;
  return endpoints.filter(({ conditions }) => conditions.serving && conditions.terminating);
}

/** An endpoint's conditions, in words. */
export function conditionsInWords({ conditions: { ready, serving, terminating } }: Endpoint): string {
  if (ready) return 'ready';
  if (!terminating) return 'not ready';
  return serving ? 'terminating, still serving' : 'terminating';
}
