import { describe, expect, it } from 'vitest';
import type { ServiceController } from '../../servers/index.js';
import { until } from '../../support/until.js';
import { cleanUpAfterEach, openApi, WatchedService } from './harness.js';

cleanUpAfterEach();

function pods(service: ServiceController, count: number): void {
  service.setPods(Array.from({ length: count }, (_, index) => ({ name: `p${index}`, address: `10.0.0.${index + 1}` })));
}

describe('W11 with an API server', () => {
  for (const [what, streamingLists, counts] of [
    ['that has streaming lists', true, { lists: 0, watches: 1 }],
    ['that has none', false, { lists: 1, watches: 2 }],
  ] as const) {
    it(`${what}: the set and its changes arrive, and no request is made that is not needed`, async () => {
      const api = await openApi({ streamingLists });
      const orders = api.service('shop', 'orders', { ports: [{ port: 80 }] });
      pods(orders, 150);
      const service = new WatchedService(api, { streamingLists: true });
      await until('all', () => service.listener.endpoints?.length === 150);
      pods(orders, 160);
      await service.pass('the change', () => service.listener.endpoints?.length === 160, 10);
      expect(api.counts).toMatchObject({ ...counts, openWatches: 1, openConnections: 1 });
      expect(service.listener.errors).toEqual([]);
    });
  }

  it('that never says the state is complete: a list after 5 s', async () => {
    const api = await openApi();
    pods(api.service('shop', 'orders', { ports: [{ port: 80 }] }), 2);
    api.failNext('watch', { kind: 'silent' });
    const service = new WatchedService(api, { streamingLists: true });
    await until('it asks', () => api.counts.watches === 1);
    const tookMs = await service.pass('the set', () => service.listener.endpoints?.length === 2);
    expect(tookMs).toBeGreaterThanOrEqual(4_900);
    expect(api.counts.lists).toBe(1);
  });

  it('that grants no right to list: a watch is enough', async () => {
    const api = await openApi({
      tokens: { me: [{ namespace: 'shop', verbs: ['watch'], resources: ['endpointslices'] }] },
    });
    pods(api.service('shop', 'orders', { ports: [{ port: 80 }] }), 2);
    const service = new WatchedService(api, { streamingLists: true, credentials: { token: 'me' } });
    await until('the set', () => service.listener.endpoints?.length === 2);
    expect(service.listener.errors).toEqual([]);
  });
});
