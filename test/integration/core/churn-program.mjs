/**
 * Lets endpoints come and go, with calls and waiting callers all along, and prints what is left of it as JSON.
 *
 *   node --expose-gc churn-program.mjs [adds]
 */
import { getEventListeners } from 'node:events';
import { createBalancer, createEndpoint, outcomes } from 'evenkeel';
import { FakeClock, seededRng, settle } from 'evenkeel/testing';

const [, , adds = '100000'] = process.argv;

const PER_ROUND = 100;
const ROUNDS = Number(adds) / PER_ROUND;
const clock = new FakeClock();
let open = 0;
/** Every seventh endpoint refuses, every eleventh never answers; keeps nothing of what it opened. */
const transport = {
  connect(endpoint, signal) {
    const number = Number(endpoint.uid);
    if (number % 7 === 0) return Promise.reject(new Error('refused'));
    if (number % 11 === 0) {
      return new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
    }
    open++;
    let settleClosed = () => {};
    const closed = new Promise((resolve) => {
      settleClosed = resolve;
    });
    let isOpen = true;
    const close = async () => {
      if (isOpen) open--;
      isOpen = false;
      settleClosed(undefined);
    };
    return Promise.resolve({ handle: endpoint.uid, capacity: 4, closed, close });
  },
};
let listener;
const resolver = {
  name: 'churn',
  watch(given) {
    listener = given;
    return { refresh() {}, close() {} };
  },
};
// A signal as long-lived as the process, as servers have one for their shutdown. Forty callers wait on it at a time.
const { signal } = new AbortController();
let warned = 0;
const observer = { subchannelChanged() {}, warned: () => warned++ };
const balancer = createBalancer({ resolver, transport, clock, rng: seededRng(1), observer, waitTimeoutMs: 1_000 });

async function round(number) {
  const endpoints = Array.from({ length: PER_ROUND }, (_, i) => {
    const uid = String(number * PER_ROUND + i);
    return createEndpoint({ address: `10.${number % 250}.0.${i}`, port: 80, uid });
  });
  listener.update(endpoints);
  await settle();
  const calls = Array.from({ length: 40 }, () => balancer.acquire({ signal }).catch(() => undefined));
  // The first calls wait a moment for more than one connection.
  await clock.advanceAsync(20);
  const all = [outcomes.success, outcomes.reset, outcomes.cancelled, outcomes.notConnected];
  for (const [i, call] of calls.entries()) (await call)?.end(all[i % all.length]);
  await clock.advanceAsync(31_000);
}

function heap() {
  for (let i = 0; i < 5; i++) globalThis.gc();
  return process.memoryUsage().heapUsed;
}

// What is made once is made: code, caches, the largest arrays.
for (let i = 0; i < 50; i++) await round(i);
const before = heap();
for (let i = 50; i < 50 + ROUNDS / 2; i++) await round(i);
const middle = heap();
for (let i = 50 + ROUNDS / 2; i < 50 + ROUNDS; i++) await round(i);
const after = heap();
const shown = balancer.snapshot().endpoints.length;
await balancer.close({ signal });
await settle();
console.log(
  JSON.stringify({
    adds: ROUNDS * PER_ROUND,
    // What is left of endpoints is left in both halves; what V8 does by the way, in one.
    grewBytes: 2 * Math.min(middle - before, after - middle),
    shown,
    timers: clock.timers,
    open,
    warned,
    listeners: getEventListeners(signal, 'abort').length,
    handles: process.getActiveResourcesInfo().filter((name) => /Timeout|Immediate|TCP|UDP/.test(name)),
  }),
);
