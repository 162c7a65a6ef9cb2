import { type ObserverEvents, roundRobin, staticEndpoints, without } from 'evenkeel';
import { createDispatcher, type DispatcherOptions, type ServiceDispatcher } from 'evenkeel/undici';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { endText } from '../../support/fixtures/attempt-text.js';
import { connected } from '../../support/fixtures/connected.js';
import { Pods } from '../../support/pods/pods.js';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';
import { carriesHttp2 } from './support/version.js';

const origin = 'https://orders.shop:8443';
const certificate = createCertificate({ hosts: ['orders.shop'] });

describe.runIf(carriesHttp2)(titleOf('over HTTP/2 with undici 8', carriesHttp2, 'it needs undici 8.10'), () => {
  let pods: Pods;
  let orders: ServiceDispatcher;
  let attempts: ObserverEvents['attemptEnded'][] = [];

  beforeAll(async () => {
    pods = await Pods.start(2, { tls: certificate, http2: true });
  });
  afterAll(() => pods[Symbol.asyncDispose]());
  afterEach(async () => {
    await orders.destroy();
    attempts = [];
    for (const pod of pods.all) await pod.behave({ status: 200, hang: false });
  });

  const open = async (options: DispatcherOptions): Promise<void> => {
    orders = createDispatcher(origin, {
      resolver: staticEndpoints(pods.endpoints),
      tls: { ca: certificate.cert },
      allowH2: true,
      stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
      picker: roundRobin(),
      observer: { attemptEnded: (event) => attempts.push(event) },
      ...options,
    });
    await connected(orders.balancer, 2);
  };
  const inFlight = (): number => orders.balancer.snapshot().endpoints.reduce((sum, { inFlight: n }) => sum + n, 0);
  const idle = (): Promise<void> => until('nothing runs', () => inFlight() === 0);
  const told = (): string[] => attempts.map(endText);
  const sockets = (): Promise<number> => pods.total('connections');

  it.each(['/', '/bytes/1000000'])(
    'a response with %s that is discarded costs its stream, not the connection',
    async (path) => {
      await open({ retry: { statuses: [503] } });
      await pods.at(0).behave({ status: 503 });
      const before = await sockets();
      for (let request = 0; request < 6; request++) {
        const { statusCode, headers, body } = await orders.request({ path, method: 'GET' });
        expect([statusCode, headers['x-pod']]).toEqual([200, 'pod-1']);
        await body.dump({ limit: 2_000_000 });
      }
      await idle();
      expect([...new Set(told())].sort()).toEqual(['failure status again', 'success']);
      expect(await sockets()).toBe(before);
    },
  );

  it('a response that does not end is cut, and the connection stays', async () => {
    await open({ retry: { statuses: [503] } });
    await pods.at(0).behave({ status: 503 });
    const before = await sockets();
    for (let request = 0; request < 2; request++) {
      const { headers, body } = await orders.request({ path: '/hang-body', method: 'GET' });
      expect(headers['x-pod']).toBe('pod-1');
      body.on('error', () => {});
      body.destroy();
    }
    await idle();
    expect(told()).toContain('failure status again');
    expect(await sockets()).toBe(before);
  });

  it('a hedge answers, and the stream of the other attempt is reset', async () => {
    await open({ hedge: { afterMs: 30 }, retry: { budget: { minPerSecond: 1_000 } } });
    await pods.at(0).behave({ hang: true });
    for (let request = 0; request < 50 && !told().includes('success hedge'); request++) {
      const { headers, body } = await orders.request({ path: '/', method: 'GET' });
      expect(headers['x-pod']).toBe('pod-1');
      await body.dump();
    }
    await idle();
    expect(told()).toContain('success hedge');
    expect(told()).toContain('cancelled');
  });

  it('a deadline ends the wait for a response, and a response that has begun', async () => {
    await open({ deadlineMs: 300 });
    await expect(orders.request({ path: '/hang', method: 'GET' })).rejects.toMatchObject({
      code: 'EVENKEEL_DEADLINE',
    });
    const { body } = await orders.request({ path: '/hang-body', method: 'GET' });
    await expect(body.text()).rejects.toMatchObject({ code: 'EVENKEEL_DEADLINE' });
    await idle();
    expect(told()).toEqual(['failure timeout', 'cancelled']);
  });
});
