import { endpointSlices } from 'evenkeel/kubernetes';
import { FakeClock, seededRng } from 'evenkeel/testing';
import { resolverContract } from '../../contract/resolver.js';
import { createApiServer } from '../../servers/index.js';
import { sliceObject } from '../../support/fixtures/endpoint-cases.js';

resolverContract({
  name: 'endpointSlices',
  open: async () => {
    const api = await createApiServer({ rng: seededRng(1) });
    api.slices.put(sliceObject('s1', 'aR bR'));
    const clock = new FakeClock();
    api.services.put({
      metadata: { name: 'orders', namespace: 'shop' },
      spec: { ports: [{ name: 'http', port: 80 }] },
    });
    return {
      // Virtual time flies here: 5 s of silence are a few milliseconds.
      resolver: endpointSlices({
        namespace: 'shop',
        service: 'orders',
        port: 'http',
        apiServer: api.url,
        streamingLists: false,
      }),
      context: { clock, rng: seededRng(2), observer: {} },
      // Longer than the longest pause, which is a minute, and what the sockets then need: they get a real turn in between.
      settle: async () => {
        for (let step = 0; step < 300; step++) {
          await clock.advanceAsync(500);
          await new Promise((resolve) => setTimeout(resolve, 1));
        }
      },
      change: () => {
        api.slices.put(sliceObject('s1', 'bR cR'));
      },
      empty: () => {
        api.slices.delete('s1', 'shop');
      },
      fail: () => api.kill(),
      mend: () => api.start(),
      held: () => clock.timers + api.counts.openConnections,
      close: () => api.close(),
    };
  },
});
