import type { Endpoint } from '../endpoint/endpoint.js';

/** Those that calls would go to, as the conditions stage has it: ready ones, or else those that serve until they end. */
export function usable(endpoints: readonly Endpoint[]): readonly Endpoint[] {
  const ready = endpoints.filter(({ conditions }) => conditions.ready);
  if (ready.length > 0) return ready;
  return endpoints.filter(({ conditions }) => conditions.serving && conditions.terminating);
}

/** Its conditions, in words. */
export function conditionsInWords({ conditions: { ready, serving, terminating } }: Endpoint): string {
  if (ready) return 'ready';
  if (!terminating) return 'not ready';
  return serving ? 'terminating, still serving' : 'terminating';
}
