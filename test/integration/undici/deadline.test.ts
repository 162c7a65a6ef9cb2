import { staticEndpoints } from 'evenkeel';
import { FakeClock, FakeResolver } from 'evenkeel/testing';
import { createDispatcher, createFetch, type DispatcherOptions, type ServiceDispatcher } from 'evenkeel/undici';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import { Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { type Attempt, inFlightOf, watched } from './support/attempts.js';
import { undici8 } from './support/undici8.js';

const origin = 'http://orders.shop:8080';

let pods: Pods;
let orders: ServiceDispatcher;
let attempts: Attempt[] = [];

beforeAll(async () => {
  pods = await Pods.start(2);
});
afterAll(() => pods[Symbol.asyncDispose]());
afterEach(async () => {
  await orders.destroy();
  attempts = [];
});

const optionsWith = (options: DispatcherOptions): DispatcherOptions =>
  watched((attempt) => attempts.push(attempt), pods, options);
const open = async (options: DispatcherOptions, count = 2): Promise<void> => {
  orders = createDispatcher(origin, optionsWith(options));
  if (count > 0) await connected(orders.balancer, count);
};
const inFlight = (): number => inFlightOf(orders);
const missed = (...parts: string[]): unknown =>
  expect.objectContaining({
    code: 'EVENKEEL_DEADLINE',
    message: expect.stringMatching(new RegExp(parts.map((part) => part.replaceAll('.', '\\.')).join('.*'))),
  });

describe.each([
  ['a request of one answer', {}],
  ['a request that may have several', { retry: { statuses: [503] } }],
  ['a request that may be hedged', { hedge: { afterMs: 3_600_000 } }],
] satisfies [string, DispatcherOptions][])('the deadline of %s', (_name, more) => {
  it.each(['GET', 'POST'] as const)(
    '%s: ends the wait for a response, and counts as a timeout of the pod',
    async (method) => {
      const clock = new FakeClock();
      await open({ deadlineMs: 200, clock, ...more });
      const before = await pods.total('requests');
      const asked = orders.request({ path: '/hang', method, body: method === 'POST' ? 'x' : null });
      const failed = expect(asked).rejects.toEqual(missed(origin, method, '200 ms', 'no answer from 127.0.0.1:'));
      await until('a pod has it', async () => (await pods.total('requests')) > before);
      await clock.advanceAsync(200);
      await failed;
      await until('nothing runs', () => inFlight() === 0);
      expect(attempts.map(({ outcome, retrying }) => [outcome, retrying])).toEqual([
        [{ kind: 'failure', cause: 'timeout' }, false],
      ]);
    },
  );

  it('names the endpoint in the error', async () => {
    await open({ deadlineMs: 200, ...more, resolver: staticEndpoints([pods.at(0).endpoint]) }, 1);
    const error = await orders.request({ path: '/hang', method: 'GET' }).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'EVENKEEL_DEADLINE', endpoint: `127.0.0.1:${pods.at(0).port}` });
  });

  it('ends the wait for an endpoint', async () => {
    await open({ deadlineMs: 100, ...more, resolver: new FakeResolver(), waitTimeoutMs: 60_000 }, 0);
    await expect(orders.request({ path: '/', method: 'GET' })).rejects.toEqual(missed('it waited for an endpoint'));
    expect(orders.balancer.snapshot().waiting).toBe(0);
    expect(attempts).toEqual([]);
  });

  it('ends a response that has begun; that is not held against the pod', async () => {
    const clock = new FakeClock();
    await open({ deadlineMs: 1_000, clock, ...more });
    const { statusCode, body } = await orders.request({ path: '/hang-body', method: 'GET' });
    expect(statusCode).toBe(200);
    const failed = expect(body.text()).rejects.toEqual(missed('127.0.0.1:', 'was still answering'));
    await clock.advanceAsync(1_000);
    await failed;
    await until('nothing runs', () => inFlight() === 0);
    expect(attempts.map(({ outcome }) => outcome.kind)).toEqual(['cancelled']);
  });

  it('does nothing to a request that ends earlier', async () => {
    await open({ deadlineMs: 60_000, ...more });
    for (let request = 0; request < 20; request++) {
      const { statusCode, body } = await orders.request({ path: '/', method: 'GET' });
      expect(statusCode).toBe(200);
      await body.dump();
    }
    expect(inFlight()).toBe(0);
    expect((orders as unknown as { timers: { running: number } }).timers.running).toBe(0);
  });
});

describe('the deadline', () => {
  it('is the cause of the error that fetch throws, also with undici 8', async () => {
    const balanced = createFetch(origin, optionsWith({ deadlineMs: 200 }));
    orders = balanced.dispatcher;
    await connected(orders.balancer, 2);
    await expect(balanced('/hang')).rejects.toMatchObject({ cause: { code: 'EVENKEEL_DEADLINE' } });
    if (undici8 === undefined) return;
    await expect(undici8.request(`${origin}/hang`, { dispatcher: orders } as never)).rejects.toMatchObject({
      code: 'EVENKEEL_DEADLINE',
    });
  });

  it('names both pods of a hedged request', async () => {
    const clock = new FakeClock();
    await open({ deadlineMs: 400, hedge: { afterMs: 20 }, clock });
    const before = await pods.total('requests');
    const failed = expect(orders.request({ path: '/hang', method: 'GET' })).rejects.toEqual(
      missed('no answer from 127.0.0.1:', ' and no answer from 127.0.0.1:'),
    );
    await clock.advanceAsync(20);
    await until('both pods have it', async () => (await pods.total('requests')) === before + 2);
    await clock.advanceAsync(380);
    await failed;
    await until('nothing runs', () => inFlight() === 0);
  });

  it('may differ from request to request', async () => {
    const asked: (number | undefined)[] = [undefined, Number.POSITIVE_INFINITY, 100, 0, -5];
    await open({ deadlineMs: ({ path }) => asked[Number(path.split('=')[1])] });
    const get = (index: number, path = '/hang'): Promise<unknown> =>
      orders.request({ path: `${path}?index=${index}`, method: 'GET' });
    for (const index of [2, 3, 4]) await expect(get(index)).rejects.toMatchObject({ code: 'EVENKEEL_DEADLINE' });
    for (const index of [0, 1]) {
      const { body } = (await get(index, '/')) as { body: { dump(): Promise<void> } };
      await body.dump();
    }
  });

  it('that is not a number is an error of its function, and leaves nothing behind', async () => {
    await open({ deadlineMs: () => 'soon' as never });
    await expect(orders.request({ path: '/', method: 'GET' })).rejects.toMatchObject({ code: 'EVENKEEL_OPTION' });
    expect(inFlight()).toBe(0);
  });

  it('does not cut an upgraded connection', async () => {
    const clock = new FakeClock();
    await open({ deadlineMs: 1_000, clock });
    const { socket } = await orders.upgrade({ path: '/', protocol: 'echo' });
    // Another request of the same time, begun later, is over: so would be the deadline of the first.
    const failed = expect(orders.request({ path: '/hang', method: 'GET' })).rejects.toMatchObject({
      code: 'EVENKEEL_DEADLINE',
    });
    await clock.advanceAsync(1_000);
    await failed;
    socket.write('still there');
    const echoed = await new Promise((resolve) => socket.once('data', resolve));
    expect(String(echoed)).toBe('still there');
    socket.destroy();
  });
});
