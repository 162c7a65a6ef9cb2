import { createDispatcher, createFetch, type DispatcherOptions, type ServiceDispatcher } from 'evenkeel/undici';
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

const optionsWith = (options: DispatcherOptions): DispatcherOptions =>
  watched((attempt) => attempts.push(attempt), pods, {
    hedge: { afterMs: 30 },
    // What is tested is not the budget.
    retry: { budget: { minPerSecond: 1_000 } },
    ...options,
  });
const open = async (options: DispatcherOptions = {}): Promise<void> => {
  orders = createDispatcher(origin, optionsWith(options));
  await connected(orders.balancer, 3);
};
const get = async (path = '/'): Promise<{ status: number; pod: unknown; text: string }> => {
  const { statusCode, headers, body } = await orders.request({ path, method: 'GET' });
  return { status: statusCode, pod: headers['x-pod'], text: await body.text() };
};
const inFlight = (): number => inFlightOf(orders);
const idle = (): Promise<void> => until('nothing runs', () => inFlight() === 0);
const told = (): string[] => attempts.map(attemptText);
/**
 * Until a hedge has answered: on a busy machine one may also go to the pod that hangs, beside a first attempt that is
 * merely slow. Bounded.
 */
const untilHedged = async (send: () => Promise<void>): Promise<void> => {
  attempts = [];
  for (let request = 0; request < 50 && !told().includes('2 success hedge'); request++) await send();
  expect(told()).toContain('2 success hedge');
};
/** The n-th pod hangs, whichever the picker asks first. */
const hang = async (...indexes: number[]): Promise<void> => {
  for (const index of indexes) await pods.at(index).behave({ hang: true });
};

describe('a request whose pod takes long', () => {
  it('is answered by another pod; the first attempt is cut and is not held against its pod', async () => {
    await open();
    await hang(0);
    await untilHedged(async () => {
      const { pod, text } = await get();
      expect(pod).not.toBe('pod-0');
      expect(JSON.parse(text)).toMatchObject({ pod });
    });
    await idle();
    expect(told()).toContain('1 cancelled');
    // One that is cut before it was read is nothing to the pod: so more than one, if need be.
    for (let request = 0; request < 100 && (await pods.at(0).stats()).aborted === 0; request++) await get();
    await until('the pod sees it', async () => (await pods.at(0).stats()).aborted > 0);
  });

  it('is hedged through fetch and both versions of undici', async () => {
    const balanced = createFetch(origin, optionsWith({}));
    orders = balanced.dispatcher;
    await connected(orders.balancer, 3);
    await hang(0);
    await untilHedged(async () => {
      const response = await balanced('/');
      expect(response.headers.get('x-pod')).not.toBe('pod-0');
      expect(await response.json()).toMatchObject({ pod: response.headers.get('x-pod') });
    });
    const library = undici8;
    if (library === undefined) return;
    await untilHedged(async () => {
      const { headers, body } = await library.request(`${origin}/`, { dispatcher: orders } as never);
      expect(await body.json()).toMatchObject({ pod: headers['x-pod'] });
    });
    await idle();
  });

  it('is sent to as many other pods as max says', async () => {
    await open({ hedge: { afterMs: 30, max: 2 } });
    await hang(0, 1);
    for (let request = 0; request < 50 && !told().includes('3 success hedge'); request++) {
      expect((await get()).pod).toBe('pod-2');
    }
    await idle();
    expect(told()).toContain('3 success hedge');
    await hang(2);
    const controller = new AbortController();
    const nobody = orders.request({ path: '/', method: 'GET', signal: controller.signal });
    await until('all are asked', () => inFlight() === 3);
    controller.abort();
    await expect(nobody).rejects.toThrow('aborted');
    await idle();
    expect(inFlight()).toBe(0);
  });
});

describe('afterQuantile', () => {
  it('hedges nothing before 100 responses were measured, and then the slow requests', async () => {
    await open({ hedge: { afterQuantile: 0.95 } });
    for (let request = 0; request < 99; request++) await get();
    expect(told().some((line) => line.includes('hedge'))).toBe(false);
    for (let request = 0; request < 100; request++) await get();
    await hang(0);
    attempts = [];
    await untilHedged(async () => {
      expect((await get()).pod).not.toBe('pod-0');
    });
  });
});
