import { afterEach, expect, it } from 'vitest';
import { createBalancer } from '../../../src/balancer/balancer.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../src/testing/fake-resolver.js';
import { FakeTransport } from '../../../src/testing/fake-transport.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const balancer of open.splice(0)) await balancer[Symbol.asyncDispose]();
});

const all = ['10.0.0.1', '10.0.0.2', '10.0.0.3'];
const at = (address: string): string => `${address}:80`;

/** Three endpoints that refuse connections. Callers do not wait while every endpoint refuses, unless `waitWhileRefused` says so. */
function world({ waitWhileRefused = false } = {}) {
  const clock = new FakeClock();
  const transport = new FakeTransport();
  const resolver = new FakeResolver();
  for (const address of all) transport.behaviour.set(at(address), 'refuse');
  const balancer = createBalancer({
    resolver,
    transport,
    clock,
    rng: seededRng(1),
    waitTimeoutMs: 60_000,
    waitWhileRefused,
  });
  open.push(balancer);
  const set = (addresses: readonly string[]) => resolver.update(...addresses);
  /** A call, and where it stands now: the endpoint or the code of its error once it has one. */
  const call = (): { end: string | undefined } => {
    const state: { end: string | undefined } = { end: undefined };
    balancer.acquire().then(
      (lease) => {
        state.end = lease.endpoint.address;
        lease.end({ kind: 'success' });
      },
      (error) => {
        state.end = error.code;
      },
    );
    return state;
  };
  return { clock, transport, balancer, set, call };
}

it('a call waits by default while every endpoint refuses connections', async () => {
  const { clock, set, call } = world({ waitWhileRefused: true });
  set(all);
  const waiting = call();
  await clock.advanceAsync(1_000);
  expect(waiting.end).toBeUndefined();
});

it('with false, a call fails with the endpoints’ own error once each has refused, without a pause', async () => {
  const { clock, set, balancer } = world();
  set(all);
  const failed = expect(balancer.acquire()).rejects.toMatchObject({
    code: 'EVENKEEL_CONNECT',
    message: expect.stringMatching(/no endpoint can be connected to \(no connection to 10\.0\.0\.\d:80: refused/),
    cause: { code: 'ECONNREFUSED' },
  });
  await clock.advanceAsync(0);
  await failed;
});

it('endpoints that have refused before are dialed once more for a later call', async () => {
  const { clock, transport, set, call } = world();
  set(all);
  await clock.advanceAsync(20);
  transport.attempts.length = 0;
  const later = call();
  await clock.advanceAsync(1);
  expect(later.end).toBe('EVENKEEL_CONNECT');
  expect([...transport.attempts].sort()).toEqual(all.map(at));
});

it('a later call is served by an endpoint that accepts again, although its backoff is not over', async () => {
  const { clock, transport, set, call } = world();
  set(all);
  await clock.advanceAsync(20);
  transport.behaviour.set(at('10.0.0.2'), 'accept');
  const later = call();
  await clock.advanceAsync(20);
  expect(later.end).toBe('10.0.0.2');
});

it('a call does not wait longer because others arrive and make the endpoints dialed again', async () => {
  const { clock, transport, set, call } = world();
  transport.behaviour.set(at('10.0.0.3'), 'hang');
  set(all);
  await clock.advanceAsync(0);
  const first = call();
  // Two have refused for the first call, and are dialed for the second when the third refuses.
  await clock.advanceAsync(1_999);
  for (const address of ['10.0.0.1', '10.0.0.2']) transport.behaviour.set(at(address), 'hang');
  transport.behaviour.set(at('10.0.0.3'), 'refuse');
  await clock.advanceAsync(100);
  const second = call();
  await clock.advanceAsync(600);
  expect([first.end, second.end]).toEqual(['EVENKEEL_CONNECT', undefined]);
});

it('an endpoint that does not answer is waited for, and so is one that was just listed', async () => {
  const { clock, transport, set, call } = world();
  transport.behaviour.set(at('10.0.0.3'), 'hang');
  set(all);
  const waiting = call();
  await clock.advanceAsync(10_000);
  expect(waiting.end).toBeUndefined();
  transport.behaviour.set(at('10.0.0.4'), 'accept');
  set(['10.0.0.1', '10.0.0.2', '10.0.0.4']);
  await clock.advanceAsync(20);
  expect(waiting.end).toBe('10.0.0.4');
});

it('a call fails once the only endpoint that has not refused leaves the set', async () => {
  const { clock, transport, set, call } = world();
  transport.behaviour.set(at('10.0.0.3'), 'hang');
  set(all);
  const waiting = call();
  await clock.advanceAsync(100);
  set(['10.0.0.1', '10.0.0.2']);
  await clock.advanceAsync(1);
  expect(waiting.end).toBe('EVENKEEL_CONNECT');
});

it('an endpoint that accepts and hangs up is not dialed over and over while a call waits', async () => {
  const { clock, transport, set, call } = world();
  transport.behaviour.set(at('10.0.0.1'), 'accept');
  transport.capacity = 0;
  set(['10.0.0.1']);
  await clock.advanceAsync(20);
  const waiting = call();
  for (let round = 0; round < 5; round++) {
    transport
      .open()
      .at(-1)
      ?.end(Object.assign(new Error('reset'), { code: 'ECONNRESET' }));
    await clock.advanceAsync(10);
  }
  expect(transport.attempts).toHaveLength(1);
  expect(waiting.end).toBeUndefined();
});
