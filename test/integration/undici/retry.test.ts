import { Readable } from 'node:stream';
import { staticEndpoints } from 'evenkeel';
import { createDispatcher, type DispatcherOptions, type ServiceDispatcher } from 'evenkeel/undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { attemptText } from '../../support/fixtures/attempt-text.js';
import { connected } from '../../support/fixtures/connected.js';
import { heard } from '../../support/fixtures/heard.js';
import { Pod, Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { type Attempt, watched } from './support/attempts.js';

const origin = 'http://orders.shop:8080';

let pods: Pods;
let dispatcher: ServiceDispatcher;
let attempts: Attempt[] = [];

beforeEach(async () => {
  pods = await Pods.start(3);
});
afterEach(async () => {
  await dispatcher.destroy();
  await pods[Symbol.asyncDispose]();
  attempts = [];
});

const open = async (options: DispatcherOptions = {}, count = 3): Promise<void> => {
  dispatcher = createDispatcher(
    origin,
    watched((attempt) => attempts.push(attempt), pods, options),
  );
  await connected(dispatcher.balancer, count);
};
const get = async (path: string): Promise<{ statusCode: number; text: string }> => {
  const { statusCode, body } = await dispatcher.request({ path, method: 'GET' });
  return { statusCode, text: await body.text() };
};
const outcomes = (): string[] => attempts.map(attemptText);

describe('a pod that went away while its connection was idle', () => {
  it.each(['GET', 'POST', 'PATCH'] as const)(
    'fails no %s, which goes to another pod: nothing was sent',
    async (method) => {
      await open();
      for (let request = 0; request < 3; request++) await get('/');
      attempts = [];
      await pods.at(1).kill();
      await heard(pods.at(1));
      for (let id = 0; id < 9; id++) {
        const { statusCode, body } = await dispatcher.request({
          path: '/',
          method,
          headers: { 'x-id': String(id) },
          body: method === 'GET' ? null : Readable.from(['never ', 'read before']),
        });
        expect(statusCode).toBe(200);
        expect(await body.json()).toMatchObject({ length: method === 'GET' ? 0 : 17 });
      }
      expect(outcomes()).toContain('1 not-started connect again');
      pods.all.splice(1, 1);
      expect(Object.values(await pods.ids())).toEqual(new Array(9).fill(1));
    },
  );
});

describe('headers that can be read only once', () => {
  function* generated(): Generator<[string, string]> {
    yield ['x-tenant', 'shop'];
    yield ['x-trace', '7'];
  }
  const once: Record<string, () => Iterable<[string, string]>> = {
    'a generator': generated,
    'the entries of a Map': () => new Map([...generated()]).entries(),
    'the entries of Headers': () => new Headers([...generated()]).entries(),
  };
  it.each(Object.entries(once))('%s: are also sent with the second attempt', async (_name, headers) => {
    await open({ retry: { statuses: [503] } });
    for (const [index, trouble] of [{ reset: true }, { status: 503 }].entries()) await pods.at(index).behave(trouble);
    for (let request = 0; request < 3; request++) {
      const { body } = await dispatcher.request({ path: '/', method: 'GET', headers: headers() as never });
      expect(await body.json()).toMatchObject({ headers: { 'x-tenant': 'shop', 'x-trace': '7' } });
    }
    expect(outcomes().join()).toMatch(/reset again.*status again|status again.*reset again/);
  });
});

describe('a connection that is reset before the first byte of a response', () => {
  it.each(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'] as const)('makes %s try every pod once', async (method) => {
    await open();
    const body = method === 'PUT' ? Buffer.from('whole') : null;
    await expect(dispatcher.request({ path: '/reset', method, body })).rejects.toMatchObject({
      code: expect.stringMatching(/UND_ERR_SOCKET|ECONNRESET/),
    });
    expect((await pods.stats()).map(({ requests }) => requests)).toEqual([1, 1, 1]);
    expect(outcomes()).toEqual(['1 failure reset again', '2 failure reset again', '3 failure reset']);
    expect(new Set(attempts.map(({ endpoint }) => endpoint.key)).size).toBe(3);
  });

  it.each(['POST', 'PATCH'] as const)('makes %s fail, which is never sent twice', async (method) => {
    await open();
    await expect(dispatcher.request({ path: '/reset', method, body: 'x' })).rejects.toThrow();
    expect(await pods.total('requests')).toBe(1);
    expect(outcomes()).toEqual(['1 failure reset']);
  });

  it('makes a request with a stream as its body fail, which is never replayed', async () => {
    await open();
    const body = Readable.from(['one', 'two']);
    await expect(dispatcher.request({ path: '/reset', method: 'PUT', body })).rejects.toThrow();
    expect(await pods.total('requests')).toBe(1);
  });

  it('makes a request marked as not idempotent fail', async () => {
    await open();
    await expect(dispatcher.request({ path: '/reset', method: 'GET', idempotent: false })).rejects.toThrow();
    expect(await pods.total('requests')).toBe(1);
  });

  it('of a single pod is tried there again, on another connection', async () => {
    await open({ resolver: staticEndpoints([pods.at(0).endpoint]) }, 1);
    await get('/');
    await expect(get('/reset')).rejects.toThrow();
    expect(await pods.total('requests')).toBe(1 + 3);
    expect(await pods.total('connections')).toBeGreaterThanOrEqual(3);
  });

  it('is not repeated without a budget, or with retries off', async () => {
    await open({ retry: { budget: { ratio: 0, minPerSecond: 0 } } });
    await expect(get('/reset')).rejects.toThrow();
    expect(await pods.total('requests')).toBe(1);
    await dispatcher.destroy();
    await open({ retry: { maxAttempts: 1 } });
    await expect(get('/reset')).rejects.toThrow();
    expect(await pods.total('requests')).toBe(2);
  });
});

describe('a single pod that restarts', () => {
  it.each(['GET', 'POST'] as const)('makes %s wait until it is back: nothing was sent', async (method) => {
    const { port } = pods.at(0);
    await open({ resolver: staticEndpoints([pods.at(0).endpoint]), waitTimeoutMs: 120_000 }, 1);
    await get('/');
    await pods.at(0).kill();
    await heard(pods.at(0));
    const answer = dispatcher.request({ path: '/', method, body: method === 'POST' ? 'x' : null });
    await until('it waits', () => dispatcher.balancer.snapshot().waiting === 1);
    pods.all[0] = await Pod.start({ name: 'again', port });
    expect(await (await answer).body.json()).toMatchObject({ pod: 'again' });
    expect(await pods.at(0).stats()).toMatchObject({ requests: 1 });
  });
});

describe('a response that has begun', () => {
  it('is not repeated when its connection is reset in the body', async () => {
    await open();
    await expect(get('/reset-body')).rejects.toThrow();
    expect(await pods.total('requests')).toBe(1);
    expect(outcomes()).toEqual(['1 failure reset']);
  });

  it('with 503 is passed to the caller, and not repeated', async () => {
    await open();
    expect((await get('/status/503')).statusCode).toBe(503);
    expect(await pods.total('requests')).toBe(1);
    expect(outcomes()).toEqual(['1 failure status']);
  });

  it('with 503 or 429 and Retry-After is pushback', async () => {
    await open();
    for (const pod of pods.all) await pod.behave({ headers: { 'retry-after': '7' } });
    await get('/status/503');
    await get('/status/429');
    expect(attempts.map(({ outcome }) => outcome)).toEqual([
      { kind: 'failure', cause: 'overload', retryAfterMs: 7_000 },
      { kind: 'failure', cause: 'overload', retryAfterMs: 7_000 },
    ]);
  });
});

describe('the load report of a pod', () => {
  it('is part of the outcome', async () => {
    await open();
    for (const pod of pods.all) await pod.behave({ headers: { 'Endpoint-Load-Metrics': 'TEXT cpu_utilization=0.5' } });
    await get('/');
    expect(attempts[0]?.outcome).toEqual({ kind: 'success', report: { cpuUtilization: 0.5 } });
  });
});

describe('a pod that does not answer in time', () => {
  it('is a timeout, and the request is not repeated: it may have been processed', async () => {
    await open({ headersTimeoutMs: 200 });
    await expect(get('/hang')).rejects.toMatchObject({ code: 'UND_ERR_HEADERS_TIMEOUT' });
    expect(await pods.total('requests')).toBe(1);
    expect(outcomes()).toEqual(['1 failure timeout']);
  });
});

describe('an error of the caller in handling a response', () => {
  it('is held against no pod', async () => {
    await open();
    const refused = dispatcher.upgrade({ path: '/status/200', protocol: 'echo', method: 'POST' });
    await refused.then(({ socket }) => socket.destroy());
    // Asking for an upgrade over a path that answers plainly: undici throws in the middle of the answer.
    await expect(dispatcher.connect({ origin, path: 'x', headers: { 'bad header': '' } })).rejects.toThrow();
    const failing = dispatcher.stream({ path: '/', method: 'GET' }, () => {
      throw new Error('no stream today');
    });
    await expect(failing).rejects.toThrow('no stream today');
    expect(attempts.map(({ outcome }) => outcome.kind)).not.toContain('failure');
  });
});

describe('a body that fails while it is sent', () => {
  const broken = (): Error => Object.assign(new Error('the upload is gone'), { code: 'ECONNRESET', syscall: 'read' });
  it.each([
    [
      'a generator',
      async function* () {
        yield 'a part';
        throw broken();
      },
    ],
    [
      'a web stream',
      () =>
        new ReadableStream({
          start: (controller) => controller.enqueue(new TextEncoder().encode('a part')),
          pull: (controller) => controller.error(broken()),
        }),
    ],
    [
      'a stream',
      () =>
        new Readable({
          read() {
            this.push('a part');
            this.destroy(broken());
          },
        }),
    ],
  ])('is held against no pod: %s, whose error looks like that of a connection', async (_what, body) => {
    await open();
    const request = dispatcher.request({ path: '/', method: 'POST', body: body() as never });
    await expect(request).rejects.toThrow('the upload is gone');
    await until('the attempt is over', () => attempts.length > 0);
    expect(outcomes()).toEqual(['1 cancelled']);
  });

  it('a generator arrives whole if it does not fail', async () => {
    await open();
    const words = async function* () {
      yield 'one ';
      yield Buffer.from('two');
    };
    const { body } = await dispatcher.request({ path: '/echo', method: 'POST', body: words() as never });
    expect(await body.text()).toBe('one two');
  });
});

describe('an invalid request', () => {
  it('fails as with undici alone, and is held against no pod', async () => {
    await open();
    const wrong = dispatcher.request({ path: '/', method: 'GET', headers: { 'bad header': 'x' } });
    await expect(wrong).rejects.toMatchObject({ code: 'UND_ERR_INVALID_ARG' });
    expect(outcomes()).toEqual(['1 cancelled']);
    const mismatch = dispatcher.request({ path: '/', method: 'POST', body: 'x', headers: { 'content-length': '5' } });
    await expect(mismatch).rejects.toMatchObject({ code: 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH' });
    expect(await pods.total('requests')).toBe(0);
  });
});
