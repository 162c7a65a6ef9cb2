import { endpointSlices } from 'evenkeel/kubernetes';
import { createDispatcher } from 'evenkeel/undici';
import { describe, expect, it } from 'vitest';
import { createApiServer } from '../../servers/index.js';
import { Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';

const ORIGIN = 'http://orders.shop:8080';
const CALLERS = 8;
const GETS = 2_000;

describe('requests while the API server is away', () => {
  it('W15: it is away for the whole load test and a pod dies meanwhile: no GET fails, the dead pod gets no more', async () => {
    await using pods = await Pods.start(3);
    const api = await createApiServer();
    const service = api.service('shop', 'orders', { ports: [{ name: 'http', port: 8080, targetPort: 'http' }] });
    service.setPods(pods.all.map(({ name, port }) => ({ name, address: '127.0.0.1', ports: { http: port } })));
    await using dispatcher = createDispatcher(ORIGIN, {
      resolver: endpointSlices({
        namespace: 'shop',
        service: 'orders',
        port: 'http',
        apiServer: api.url,
        allowAddresses: ['loopback'],
      }),
    });
    const { balancer } = dispatcher;
    const states = (): string[] => balancer.snapshot().endpoints.map(({ state }) => state);
    await balancer.ready();
    await until('every pod is connected', () => states().every((state) => state === 'ready'));
    await api.kill();
    await until('the set is stale', () => balancer.snapshot().staleForMs > 0);

    let left = GETS;
    const failures: unknown[] = [];
    const call = async (): Promise<void> => {
      for (let number = left--; number > 0; number = left--) {
        if (number === GETS / 2) await pods.all[0]?.kill();
        try {
          const { statusCode, body } = await dispatcher.request({ origin: ORIGIN, path: '/', method: 'GET' });
          await body.dump();
          if (statusCode !== 200) failures.push(statusCode);
        } catch (error) {
          failures.push(error);
        }
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, call));
    expect(failures).toEqual([]);

    expect(balancer.snapshot()).toMatchObject({ state: 'ready', endpoints: { length: 3 } });
    expect(states().filter((state) => state === 'ready')).toHaveLength(2);
    expect(balancer.snapshot().staleForMs).toBeGreaterThan(0);
    await api.close();
  });
});
