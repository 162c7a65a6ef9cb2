import { Readable } from 'node:stream';
import { createDispatcher, createFetch, type DispatcherOptions, type ServiceDispatcher } from 'evenkeel/undici';
import * as undici from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { attemptText } from '../../support/fixtures/attempt-text.js';
import { connected } from '../../support/fixtures/connected.js';
import { Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { type Attempt, inFlightOf, watched } from './support/attempts.js';
import { undici8 } from './support/undici8.js';

const origin = 'http://orders.shop:8080';

let pods: Pods;
let orders: ServiceDispatcher;
let attempts: Attempt[];

beforeEach(async () => {
  pods = await Pods.start(3);
  attempts = [];
});
afterEach(async () => {
  await orders.destroy();
  await pods[Symbol.asyncDispose]();
});

const open = async (options: DispatcherOptions = {}): Promise<void> => {
  orders = createDispatcher(origin, optionsWith(options));
  await connected(orders.balancer, 3);
};
const optionsWith = (options: DispatcherOptions): DispatcherOptions =>
  watched((attempt) => attempts.push(attempt), pods, {
    // Twelve retries at once are more than the budget of six calls.
    retry: { statuses: [502, 503, 504], budget: { minPerSecond: 100 } },
    ...options,
  });
const get = async (path: string, method = 'GET'): Promise<{ status: number; pod: unknown; text: string }> => {
  const { statusCode, headers, body } = await orders.request({ path, method: method as 'GET' });
  return { status: statusCode, pod: headers['x-pod'], text: await body.text() };
};
const told = (): string[] => attempts.map(attemptText);
const inFlight = (): number => inFlightOf(orders);
const requests = async (): Promise<number[]> => (await pods.stats()).map((stats) => stats.requests);

describe('a response whose status is retried on another pod', () => {
  it.each(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'])(
    '%s: the caller gets the other pod’s response',
    async (method) => {
      await open();
      for (const pod of [pods.at(0), pods.at(1)]) await pod.behave({ status: 503 });
      for (let request = 0; request < 6; request++) {
        const answer = await get('/', method);
        expect(answer).toMatchObject({ status: 200, pod: 'pod-2' });
        if (method !== 'HEAD') expect(JSON.parse(answer.text)).toMatchObject({ pod: 'pod-2', method });
      }
      expect(told()).toContain('2 failure status again');
      expect(inFlight()).toBe(0);
      // Each answer was read to its end: its connection is used again. After a HEAD undici itself closes it.
      if (method !== 'HEAD') expect(await pods.total('connections')).toBe(3);
    },
  );

  it.each([
    ['undici.request', undici],
    ['undici.request of version 8', undici8],
  ])('is replaced through %s', async (_name, library) => {
    if (library === undefined) return;
    await open();
    for (const pod of [pods.at(0), pods.at(1)]) await pod.behave({ status: 503 });
    const options = { dispatcher: orders, method: 'PUT', body: 'whole' } as never;
    const { statusCode, body } = await library.request(`${origin}/`, options);
    expect(statusCode).toBe(200);
    expect(await body.json()).toMatchObject({ pod: 'pod-2', length: 5 });
  });

  it('is replaced through the global fetch, with repeated headers', async () => {
    const balanced = createFetch(origin, optionsWith({}));
    orders = balanced.dispatcher;
    await connected(orders.balancer, 3);
    for (const pod of [pods.at(0), pods.at(1)]) await pod.behave({ status: 503 });
    for (let request = 0; request < 3; request++) {
      const response = await balanced('/');
      expect(response.status).toBe(200);
      expect(response.headers.get('x-pod')).toBe('pod-2');
      expect(await response.json()).toMatchObject({ pod: 'pod-2' });
    }
    const cookies = await balanced('/cookies');
    expect(cookies.headers.getSetCookie()).toEqual(['a=1', 'b=2']);
    await cookies.text();
  });

  it('is requested from each pod once; the caller then gets the last response unchanged', async () => {
    await open();
    for (const pod of pods.all) await pod.behave({ status: 503, headers: { 'x-why': 'no database' } });
    const { statusCode, headers, body } = await orders.request({ path: '/', method: 'GET' });
    expect([statusCode, headers['x-why']]).toEqual([503, 'no database']);
    expect(await body.json()).toMatchObject({ pod: headers['x-pod'] });
    expect(await requests()).toEqual([1, 1, 1]);
    await until('all attempts are told of', () => attempts.length === 3);
    expect(told().sort()).toEqual(['1 failure status again', '2 failure status again', '3 failure status']);
  });

  it('is returned at once where no other pod is left', async () => {
    await open({ retry: { statuses: [503], maxAttempts: 10 } });
    for (const pod of pods.all) await pod.behave({ status: 503 });
    expect(await get('/')).toMatchObject({ status: 503 });
    expect(await requests()).toEqual([1, 1, 1]);
  });

  it('is returned without a budget, with retries off, or for other statuses', async () => {
    for (const retry of [
      { statuses: [503], budget: { ratio: 0, minPerSecond: 0 } },
      { statuses: [503], maxAttempts: 1 },
      { statuses: [502] },
      {},
    ]) {
      await open({ retry });
      expect(await get('/status/503')).toMatchObject({ status: 503, text: 'status 503' });
      await orders.destroy();
    }
    expect(await pods.total('requests')).toBe(4);
    await open();
  });

  it('is returned for a POST, a stream, or a request marked as not idempotent', async () => {
    await open();
    const answers = [
      await orders.request({ path: '/status/503', method: 'POST', body: 'x' }),
      await orders.request({ path: '/status/503', method: 'PATCH', body: 'x' }),
      await orders.request({ path: '/status/503', method: 'PUT', body: Readable.from(['x']) }),
      await orders.request({ path: '/status/503', method: 'GET', idempotent: false }),
    ];
    for (const { statusCode, body } of answers) {
      expect(statusCode).toBe(503);
      await body.dump();
    }
    expect(await pods.total('requests')).toBe(4);
  });

  it('is replaced for a POST if that is listed as a method that may be repeated', async () => {
    await open({ retry: { statuses: [503], methods: ['GET', 'POST'] } });
    const post = await orders.request({ path: '/status/503', method: 'POST', body: 'x', headers: { 'x-id': 'a' } });
    await post.body.dump();
    expect(await pods.ids()).toEqual({ a: 3 });
    // And so does its connection's end, which is what else happens to what may be sent twice.
    await expect(orders.request({ path: '/reset', method: 'POST', headers: { 'x-id': 'b' } })).rejects.toThrow();
    expect((await pods.ids()).b).toBe(3);
    await get('/status/503', 'PUT');
    expect(await pods.total('requests')).toBe(7);
  });
});

describe('a response that is discarded', () => {
  beforeEach(async () => {
    await open();
    for (const pod of [pods.at(0), pods.at(1)]) await pod.behave({ status: 503 });
  });

  /** Until every pod was asked first once. */
  const askThrice = async (path: string): Promise<void> => {
    for (let request = 0; request < 3; request++) {
      const { statusCode, headers, body } = await orders.request({ path, method: 'GET' });
      expect([statusCode, headers['x-pod']]).toEqual([200, 'pod-2']);
      body.on('error', () => {});
      body.destroy();
    }
    await until('nothing runs', () => inFlight() === 0);
  };
  const cut = async (): Promise<number> => (await pods.at(0).stats()).aborted + (await pods.at(1).stats()).aborted;
  const givenUp = (): string[] => [...new Set(told().filter((line) => line.endsWith('again')))].sort();

  it('costs its connection if it is long, and is held against its pod for its status alone', async () => {
    await askThrice('/bytes/1000000');
    expect(givenUp()).toEqual(['1 failure status again', '2 failure status again']);
    const again = attempts.filter(({ retrying }) => retrying).length;
    expect(again).toBeGreaterThanOrEqual(3);
    // None of them was used twice.
    expect((await pods.at(0).stats()).connections + (await pods.at(1).stats()).connections).toBeGreaterThanOrEqual(
      again,
    );
    expect(await get('/')).toMatchObject({ status: 200 });
  });

  it('keeps its connection if it is short', async () => {
    await askThrice('/bytes/1000');
    expect(givenUp()).toEqual(['1 failure status again', '2 failure status again']);
    expect((await pods.at(0).stats()).connections + (await pods.at(1).stats()).connections).toBe(2);
  });

  it('is cut when it does not end', async () => {
    await askThrice('/hang-body');
    expect(givenUp()).toEqual(['1 failure status again', '2 failure status again']);
    const again = attempts.filter(({ retrying }) => retrying).length;
    await until('they are cut', async () => (await cut()) === again);
  });
});

describe('retry.when', () => {
  it('is given what happened, and decides instead of the list', async () => {
    const seen: unknown[] = [];
    await open({
      retry: {
        statuses: [503],
        when: ({ status, method, attempt, idempotent, usual, code, header }) => {
          seen.push({ status, method, attempt, idempotent, usual, code, pod: header('X-Pod') });
          return status === 404;
        },
      },
    });
    await get('/status/200');
    await get('/status/503');
    await get('/status/404');
    expect(seen.slice(0, 3)).toEqual([
      {
        status: 503,
        method: 'GET',
        attempt: 1,
        idempotent: true,
        usual: true,
        code: undefined,
        pod: expect.any(String),
      },
      {
        status: 404,
        method: 'GET',
        attempt: 1,
        idempotent: true,
        usual: false,
        code: undefined,
        pod: expect.any(String),
      },
      {
        status: 404,
        method: 'GET',
        attempt: 2,
        idempotent: true,
        usual: false,
        code: undefined,
        pod: expect.any(String),
      },
    ]);
    expect(await pods.total('requests')).toBe(1 + 1 + 3);
    await expect(get('/reset')).rejects.toThrow();
    expect(seen.at(-1)).toMatchObject({ status: undefined, usual: true, code: expect.stringMatching(/ERR|ECONN/) });
    expect(await pods.total('requests')).toBe(6);
  });

  it('can have timeouts repeated', async () => {
    await open({ headersTimeoutMs: 200, retry: { when: ({ outcome }) => outcome.cause === 'timeout' } });
    for (const pod of [pods.at(0), pods.at(1)]) await pod.behave({ hang: true });
    expect(await get('/')).toMatchObject({ status: 200, pod: 'pod-2' });
  });
});

describe('Retry-After', () => {
  it('keeps retries of other calls away from the pod', async () => {
    await open();
    await pods.at(0).behave({ status: 503, headers: { 'retry-after': '30' } });
    await pods.at(1).behave({ status: 503 });
    for (let request = 0; request < 3; request++) expect(await get('/')).toMatchObject({ status: 200, pod: 'pod-2' });
    const [first] = await requests();
    await pods.at(1).behave({ status: 503 });
    // From here on pod-0 gets only first attempts, which stages decide about; no retry goes there.
    const before = attempts.length;
    for (let request = 0; request < 9; request++) await get('/');
    const retried = attempts.slice(before).filter(({ attempt }) => attempt > 1);
    expect(retried.length).toBeGreaterThan(0);
    expect(retried.map(({ endpoint }) => endpoint.port)).not.toContain(pods.at(0).port);
    expect(first).toBeGreaterThan(0);
  });
});

describe('a caller that aborts', () => {
  it('between two attempts, in the head and in the body leaves nothing behind', async () => {
    await open();
    await pods.at(0).behave({ status: 503 });
    await pods.at(1).behave({ status: 503 });
    await pods.at(2).behave({ hang: true });
    const controller = new AbortController();
    const hanging = orders.request({ path: '/', method: 'GET', signal: controller.signal });
    await until('the third is asked', async () => (await pods.at(2).stats()).requests === 1);
    controller.abort();
    await expect(hanging).rejects.toThrow('aborted');
    await pods.at(2).behave({ hang: false });
    const { body } = await orders.request({ path: '/hang-body', method: 'GET' });
    body.on('error', () => {});
    body.destroy();
    await until('nothing runs', () => inFlight() === 0);
    expect(attempts.map(({ outcome }) => outcome.kind)).toContain('cancelled');
    expect(await get('/')).toMatchObject({ status: 200, pod: 'pod-2' });
  });

  it('with a signal that is aborted already sends nothing', async () => {
    await open();
    await expect(orders.request({ path: '/', method: 'GET', signal: AbortSignal.abort() })).rejects.toThrow();
    expect(await pods.total('requests')).toBe(0);
  });
});
