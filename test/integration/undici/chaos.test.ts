import { staticEndpoints } from 'evenkeel';
import { seededRng } from 'evenkeel/testing';
import { createDispatcher, createFetch } from 'evenkeel/undici';
import { afterEach, expect, it } from 'vitest';
import { Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { chaos } from './support/chaos.js';
import { PROOF } from './support/proof.js';

const origin = 'http://orders.shop:8080';
const DISTURBANCES = PROOF ? 300 : 12;

let pods: Pods;
afterEach(() => pods[Symbol.asyncDispose]());

it('whatever happens to the pods and whatever callers do, every call ends and nothing is left', {
  timeout: 600_000,
}, async () => {
  pods = await Pods.start(3);
  const rng = seededRng(20260727);
  const chance = (share: number): boolean => rng.next() < share;
  const options = {
    resolver: staticEndpoints(pods.endpoints),
    connections: 4,
    headersTimeoutMs: 1_000,
    bodyTimeoutMs: 1_000,
  };
  const orders = createDispatcher(origin, options);
  const fetchOrders = createFetch(origin, options);

  const call = async (signal: AbortSignal): Promise<void> => {
    const paths = ['/reset', '/reset-body', '/hang', '/hang-body', '/bytes/300000'];
    const path = chance(0.15) ? (paths[Math.floor(rng.next() * paths.length)] as string) : '/';
    const kind = rng.next();
    if (kind < 0.4) {
      const { body } = await orders.request({ path, method: 'GET', signal });
      if (chance(0.2)) body.on('error', () => {}).destroy();
      else await body.text();
    } else if (kind < 0.6) {
      const { body } = await orders.request({ path, method: 'POST', body: 'x'.repeat(2_000), signal });
      await body.text();
    } else if (kind < 0.9) {
      const response = await fetchOrders(path, { signal });
      if (chance(0.2)) await response.body?.cancel();
      else await response.text();
    } else {
      const { socket } = await orders.upgrade({ path: '/', protocol: 'echo', signal });
      socket.on('error', () => {}).destroy();
    }
  };
  await chaos({ pods, rng, call, patienceMs: undefined, disturbances: DISTURBANCES });
  for (const balancer of [orders.balancer, fetchOrders.balancer]) {
    const { waiting, endpoints } = balancer.snapshot();
    expect([waiting, ...endpoints.map(({ inFlight }) => inFlight)]).toEqual([0, 0, 0, 0]);
  }
  await Promise.all([orders.close(), fetchOrders.close()]);
  await until('every connection of the pods is closed', async () => (await pods.total('open')) === 0);
});
