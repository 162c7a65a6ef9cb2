import { roundRobin, staticEndpoints } from 'evenkeel';
import { createDispatcher, type DispatcherOptions, type ServiceDispatcher } from 'evenkeel/undici';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { connected } from '../../support/fixtures/connected.js';
import { type Pod, Pods } from '../../support/pods/pods.js';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';
import { carriesHttp2 } from './support/version.js';

const origin = 'https://orders.shop:8443';
const certificate = createCertificate({ hosts: ['orders.shop'] });

describe.runIf(carriesHttp2)(titleOf('with undici 8, HTTP/2', carriesHttp2, 'it needs undici 8.10'), () => {
  let pods: Pods;
  let orders: ServiceDispatcher;
  const open = async (options: DispatcherOptions = {}, count = 2): Promise<void> => {
    orders = createDispatcher(origin, {
      resolver: staticEndpoints(pods.endpoints),
      tls: { ca: certificate.cert },
      allowH2: true,
      ...options,
    });
    await connected(orders.balancer, count);
  };

  beforeAll(async () => {
    pods = await Pods.start(2, { tls: certificate, http2: true });
  });
  afterAll(() => pods[Symbol.asyncDispose]());
  afterEach(() => orders.destroy());

  it('carries many requests on one connection per pod, with the name of the Service', async () => {
    await open();
    for (const pod of pods.all) await pod.behave({ delayMs: 50 });
    const before = await pods.total('connections');
    const answers = await Promise.all(
      Array.from({ length: 40 }, async () => {
        const { body } = await orders.request({ path: '/', method: 'GET' });
        return (await body.json()) as { host: string };
      }),
    );
    expect(new Set(answers.map(({ host }) => host))).toEqual(new Set(['orders.shop:8443']));
    expect((await pods.total('connections')) - before).toBe(0);
    expect(orders.balancer.snapshot().endpoints.map(({ capacity }) => capacity)).toEqual([100, 100]);
  });

  it('works with the global fetch, including headers', async () => {
    await open();
    const response = await fetch(`${origin}/cookies`, { dispatcher: orders } as unknown as RequestInit);
    expect(response.headers.getSetCookie()).toEqual(['a=1', 'b=2']);
    const posted = await fetch(`${origin}/`, {
      method: 'POST',
      body: 'a body',
      dispatcher: orders,
    } as unknown as RequestInit);
    expect(await posted.json()).toMatchObject({ length: 6 });
  });

  it('continues after a request that undici refused while others ran', async () => {
    await open({ resolver: staticEndpoints(pods.endpoints.slice(0, 1)) }, 1);
    for (const pod of pods.all) await pod.behave({ delayMs: 300 });
    const requests = await pods.total('requests');
    const running = orders.request({ path: '/', method: 'GET' });
    await until('the pod has it', async () => (await pods.total('requests')) === requests + 1);
    const refused = orders.request({ path: '/', method: 'GET', headers: { 'x-user': 'a\r\nb' } });
    await expect(refused).rejects.toMatchObject({ code: 'UND_ERR_INVALID_ARG' });
    const following = orders.request({ path: '/', method: 'GET' });
    await until('the pod has what follows', async () => (await pods.total('requests')) === requests + 2);
    for (const { body } of await Promise.all([running, following])) await body.dump();
  });

  it.each(['GET', 'POST'] as const)(
    'a %s does not wait for a running request on the same connection',
    async (method) => {
      await open({ resolver: staticEndpoints(pods.endpoints.slice(0, 1)) }, 1);
      const requests = await pods.total('requests');
      const running = orders.request({ path: '/hang', method: 'GET' });
      running.catch(() => {});
      await until('the pod has it', async () => (await pods.total('requests')) === requests + 1);
      const { statusCode, body } = await orders.request({ path: '/', method });
      await body.dump();
      expect(statusCode).toBe(200);
    },
  );

  it('fails no running request at a GOAWAY', async () => {
    await open();
    for (const pod of pods.all) await pod.behave({ delayMs: 300 });
    const requests = await pods.total('requests');
    const running = Array.from({ length: 10 }, (_, index) =>
      orders.request({ path: '/', method: index % 2 === 0 ? 'GET' : 'POST' }),
    );
    await until('the pods have them', async () => (await pods.total('requests')) === requests + 10);
    await Promise.all(pods.all.map((pod) => pod.goaway()));
    const statuses = await Promise.all(
      running.map(async (answer) => {
        const { statusCode, body } = await answer;
        await body.dump();
        return statusCode;
      }),
    );
    expect(statuses).toEqual(new Array(10).fill(200));
    const { statusCode, body } = await orders.request({ path: '/', method: 'POST' });
    await body.dump();
    expect(statusCode).toBe(200);
  });

  it('fails no request to pods that end every connection after a short time, and reconnects at once', async () => {
    await using aging = await Pods.start(3, { tls: certificate, http2: true, maxAgeMs: 300 });
    await open({ resolver: staticEndpoints(aging.endpoints), picker: roundRobin() }, 3);
    let requests = 0;
    let stopped = false;
    const callers = Array.from({ length: 4 }, async (_, index) => {
      while (!stopped) {
        const { statusCode, body } = await orders.request({ path: '/', method: index % 2 === 0 ? 'GET' : 'POST' });
        await body.dump();
        expect(statusCode).toBe(200);
        requests++;
      }
    });
    const all = Promise.all(callers);
    await Promise.race([
      all,
      until('each has ended its connections many times', async () =>
        (await aging.stats()).every(({ connections }) => connections >= 10),
      ),
    ]);
    stopped = true;
    await all;
    expect(requests).toBeGreaterThan(100);
    expect(orders.balancer.snapshot().endpoints.filter(({ state }) => state === 'backoff')).toEqual([]);
  });

  it('loses no response that arrived with the end of its connection while the event loop was busy', async () => {
    await open({ retry: { maxAttempts: 1 } });
    for (const pod of pods.all) await pod.behave({ delayMs: 100 });
    for (let round = 0; round < 3; round++) {
      const requests = await pods.total('requests');
      const running = Array.from({ length: 20 }, async (_, index) => {
        const method = index % 2 === 0 ? 'GET' : 'POST';
        const { body } = await orders.request({ path: '/bytes/2000', method });
        return (await body.text()).length;
      });
      await until('the pods have them', async () => (await pods.total('requests')) === requests + 20);
      await Promise.all(pods.all.map((pod) => pod.goaway()));
      // Our process stands still while the pods answer and hang up: all of it lies there when it goes on.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 250);
      expect(await Promise.all(running)).toEqual(new Array(20).fill(2_000));
    }
  });

  it('fails a response whose pod dies in the middle, rather than pass it off as complete', async () => {
    await using dying = await Pods.start(1, { tls: certificate, http2: true });
    await open({ resolver: staticEndpoints(dying.endpoints), retry: { maxAttempts: 1 } }, 1);
    const { body } = await orders.request({ path: '/hang-body', method: 'GET' });
    const text = body.text();
    const failed = expect(text).rejects.toThrow();
    await dying.at(0).kill();
    await failed;
  });

  it.each(['GET', 'POST'] as const)(
    'sends a %s that a pod refused by GOAWAY to another one, if that pod accepts no more connections',
    async (method) => {
      for (const pod of pods.all) await pod.behave({ delayMs: 0 });
      await using leaving = await Pods.start(1, { tls: certificate, http2: true });
      const [gone] = leaving.all as [Pod];
      await open({ resolver: staticEndpoints([gone.endpoint, ...pods.endpoints]), picker: roundRobin() }, 3);
      const roundOfAll = (): Promise<string>[] =>
        Array.from({ length: 3 }, async () => {
          const { body } = await orders.request({ path: '/', method, body: method === 'POST' ? 'x' : null });
          return ((await body.json()) as { pod: string }).pod;
        });
      await Promise.all(roundOfAll());
      await gone.behave({ hang: true });
      const running = roundOfAll();
      await until('it has one of them', async () => (await gone.stats()).requests === 2);
      await gone.refuse();
      for (const pod of await Promise.all(running)) expect(['pod-0', 'pod-1']).toContain(pod);
      expect(orders.balancer.snapshot().endpoints.map(({ inFlight }) => inFlight)).toEqual([0, 0, 0]);
    },
  );

  it('closes a connection on which nothing answers; one that answers PINGs may be silent for as long as it likes', async () => {
    for (const pod of pods.all) await pod.behave({ delayMs: 0 });
    await using more = await Pods.start(1, { tls: certificate, http2: true });
    const [frozen] = more.all as [Pod];
    await open({ resolver: staticEndpoints([frozen.endpoint, ...pods.endpoints]), picker: roundRobin() }, 3);
    const before = await pods.total('requests');
    const patient = [1, 2, 3].map(() => orders.request({ path: '/hang', method: 'GET' }));
    for (const answer of patient) answer.catch(() => {});
    await until('each pod has one', async () => (await pods.total('requests')) === before + 2);
    await until('each pod has one', async () => (await frozen.stats()).requests === 1);
    frozen.freeze();
    const running = [1, 2, 3].map(async () => {
      const { body } = await orders.request({ path: '/', method: 'GET' });
      return ((await body.json()) as { pod: string }).pod;
    });
    // The third one was given to the frozen pod.
    for (const pod of await Promise.all(running)) expect(['pod-0', 'pod-1']).toContain(pod);
    frozen.thaw();
    // What hung there was tried elsewhere, too, and hangs there now.
    await until('all of them hang on', () => {
      const { endpoints } = orders.balancer.snapshot();
      return endpoints.reduce((sum, { inFlight }) => sum + inFlight, 0) === 3;
    });
    expect(await pods.total('aborted')).toBe(0);
  });
});
