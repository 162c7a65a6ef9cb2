import type { Balancer } from '../../src/balancer/balancer.js';
import { until } from './until.js';

/** Resolves once `count` endpoints are ready. */
export async function connected<C>(balancer: Balancer<C>, count: number): Promise<void> {
  await until(`${count} endpoints are ready`, () => {
    const ready = balancer.snapshot().endpoints.filter(({ state }) => state === 'ready');
    return ready.length === count;
  });
}
