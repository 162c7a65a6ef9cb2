import { describe, expect, it } from 'vitest';
import type { AttemptedCall, FailedAttempt, SharedAttempts } from '../../../src/call/attempted-call.js';
import { Attempts } from '../../../src/call/attempts.js';
import type { Lease } from '../../../src/call/lease.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import type { ObserverEvents } from '../../../src/observe/observer.js';
import type { PickerFactory } from '../../../src/picker/picker.js';
import type { RetryRules } from '../../../src/retry/retry-policy.js';
import { settle } from '../../../src/testing/fake-clock.js';
import type { FakeConnection } from '../../../src/testing/fake-transport.js';
import { BalancerFixture } from '../../support/fixtures/balancer-fixture.js';

type Options = ConstructorParameters<typeof BalancerFixture>[0];

/** A balancer over `count` endpoints, and calls that only note what they are told. */
async function world(count: number, options: Options = {}) {
  const told: string[] = [];
  let hears = (): void => {};
  const ended: Pick<ObserverEvents['attemptEnded'], 'outcome' | 'attempt' | 'retrying' | 'hedged'>[] = [];
  const fixture = new BalancerFixture({
    ...options,
    observer: {
      attemptEnded: ({ outcome, attempt, retrying, hedged }) => {
        ended.push({ outcome, attempt, retrying, ...(hedged && { hedged }) });
        hears();
      },
    },
  });
  const addresses = ['10.0.0.1', '10.0.0.2', '10.0.0.3'].slice(0, count);
  if (count > 0) await fixture.publish(...addresses);
  let sends = (_lease: Lease<FakeConnection>): void => {};
  const call: AttemptedCall<FakeConnection> & { failures: unknown[] } = {
    failures: [],
    send: (lease) => {
      told.push(lease.endpoint.address);
      sends(lease);
    },
    fail(error) {
      this.failures.push(error);
    },
    waitBegan: () => told.push('waits'),
    waitEnded: () => told.push('waited'),
  };
  const attempts = (shared?: SharedAttempts<FakeConnection>) =>
    new Attempts(fixture.balancer, call, undefined, shared && { shared, isHedge: true });
  const inFlight = () => fixture.balancer.snapshot().endpoints.reduce((sum, endpoint) => sum + endpoint.inFlight, 0);
  return {
    ...{ fixture, told, ended, call, attempts, inFlight },
    onSend: (then: typeof sends) => {
      sends = then;
    },
    onEnded: (then: typeof hears) => {
      hears = then;
    },
  };
}

const lost = (more: Partial<FailedAttempt> = {}): FailedAttempt => ({
  outcome: outcomes.reset,
  error: new Error('lost'),
  idempotent: true,
  answered: false,
  ...more,
});

describe('the attempts of a call', () => {
  it('begin at once where an endpoint has room, and end with it', async () => {
    const { attempts, told, ended, inFlight, fixture } = await world(1);
    const call = attempts();
    expect(call.begin()).toBe(true);
    expect([told, call.number, inFlight()]).toEqual([['10.0.0.1'], 1, 1]);
    call.end(outcomes.success);
    call.end(outcomes.reset);
    expect(inFlight()).toBe(0);
    expect(ended).toEqual([{ outcome: outcomes.success, attempt: 1, retrying: false }]);
    expect(fixture.balancer.snapshot().counts).toMatchObject({ calls: 1, picks: 1 });
  });

  it('wait where none has room, and report how long', async () => {
    const { attempts, told, fixture, inFlight } = await world(0);
    const call = attempts();
    expect(call.begin()).toBe(false);
    call.wait();
    expect(told).toEqual(['waits']);
    await fixture.publish('10.0.0.9');
    expect(told).toEqual(['waits', 'waited', '10.0.0.9']);
    call.end(outcomes.success);
    expect(inFlight()).toBe(0);
  });

  it('stop waiting when the caller gives up, and keep nothing', async () => {
    const { attempts, told, call, fixture } = await world(0);
    const waiting = attempts();
    waiting.begin();
    waiting.wait();
    await settle();
    waiting.stop();
    await settle();
    expect(fixture.balancer.snapshot().waiting).toBe(0);
    expect(told).toEqual(['waits', 'waited']);
    expect(call.failures).toHaveLength(1);
    await fixture.publish('10.0.0.1');
    expect(told).toEqual(['waits', 'waited']);
  });

  it('continue elsewhere while the rules allow it, and then fail with the last error', async () => {
    const { attempts, told, ended, call } = await world(3);
    const tried = attempts();
    tried.begin();
    const errors = ['first', 'second', 'third'].map((message) => new Error(message));
    for (const error of errors) tried.fail(lost({ error }));
    expect(new Set(told).size).toBe(3);
    expect(call.failures).toEqual([errors[2]]);
    expect(ended.map(({ attempt, retrying }) => [attempt, retrying])).toEqual([
      [1, true],
      [2, true],
      [3, false],
    ]);
    // What is told late, of an attempt that is over, changes nothing.
    tried.fail(lost());
    expect(call.failures).toHaveLength(1);
  });

  it.each<[string, Partial<FailedAttempt>]>([
    ['may not be done twice', { idempotent: false }],
    ['was answered in part', { answered: true }],
    ['has nothing left to send', { resend: 'never' }],
    ['was given up', { outcome: outcomes.cancelled }],
  ])('do not continue where the call %s', async (_what, more) => {
    const { attempts, told, call } = await world(2);
    const tried = attempts();
    tried.begin();
    tried.fail(lost(more));
    expect([told.length, call.failures.length]).toEqual([1, 1]);
  });

  it('are repeated for free after a cut connection, once per call', async () => {
    const { attempts, told, call, fixture } = await world(3, { retry: { budget: { ratio: 0, minPerSecond: 1 } } });
    const cut = Array.from({ length: 100 }, () => attempts());
    for (const one of cut) one.begin();
    for (const one of cut) one.fail(lost({ resend: 'first-free' }));
    expect([told.length, call.failures.length]).toEqual([200, 0]);
    expect(fixture.balancer.snapshot().counts).toMatchObject({ retries: { reset: 100 }, overBudget: 0 });
    // The second time it is a retry like any other: the budget pays for one.
    for (const one of cut) one.fail(lost({ resend: 'first-free' }));
    expect([told.length, call.failures.length]).toEqual([201, 99]);
  });

  it.each([
    [{ maxAttempts: 1 }, 'allow one attempt'],
    [{ budget: { ratio: 0, minPerSecond: 0 } }, 'allow no retries'],
    [{ when: () => false }, 'refuse it'],
  ])('are not repeated after a cut connection with options %j', async (retry, _what) => {
    const { attempts, told, call } = await world(2, { retry });
    const cut = attempts();
    cut.begin();
    cut.fail(lost({ resend: 'first-free' }));
    expect([told.length, call.failures.length]).toEqual([1, 1]);
  });

  it('end when an observer of a failed attempt makes the caller give up', async () => {
    const { attempts, told, call: caller, inFlight, onEnded } = await world(2);
    const call = attempts();
    call.begin();
    onEnded(() => call.stop());
    const failed = lost();
    call.fail(failed);
    expect([told.length, caller.failures, inFlight()]).toEqual([1, [failed.error], 0]);
  });

  it('end with the reason of a signal that an observer of a failed attempt aborts', async () => {
    const controller = new AbortController();
    const fixture = new BalancerFixture({ observer: { attemptEnded: () => controller.abort(new Error('gave up')) } });
    await fixture.publish('10.0.0.1', '10.0.0.2');
    const used: string[] = [];
    const use = ({ endpoint }: FakeConnection): never => {
      used.push(endpoint.address);
      throw Object.assign(new Error('lost'), { code: 'ECONNRESET' });
    };
    const call = fixture.balancer.run(use, { signal: controller.signal, idempotent: true });
    await expect(call).rejects.toThrow('gave up');
    expect(used).toHaveLength(1);
  });

  it('move on for free where nothing was tried, but not forever', async () => {
    const { attempts, call, fixture, onSend } = await world(3, { retry: { budget: { ratio: 0, minPerSecond: 0 } } });
    let moves = 0;
    const moving = attempts();
    onSend(() => {
      moves++;
      queueMicrotask(() => moving.fail(lost({ outcome: outcomes.notStarted, idempotent: false, resend: 'free' })));
    });
    moving.begin();
    for (let turn = 0; turn < 1_000 && call.failures.length === 0; turn++) await settle();
    expect(call.failures).toHaveLength(1);
    // The budget is empty, so nothing but moves was possible.
    expect(moves).toBe(101);
    expect(moving.counted).toBe(1);
    expect(fixture.balancer.snapshot().counts.overBudget).toBe(1);
  });

  it('at an endpoint that cannot take them are undone without being counted', async () => {
    const { attempts, told, ended, inFlight } = await world(1);
    const full = attempts();
    full.begin();
    full.giveBack();
    await settle();
    expect(told).toEqual(['10.0.0.1', 'waits', 'waited', '10.0.0.1']);
    expect([full.number, inFlight(), ended.length]).toEqual([1, 1, 0]);
  });

  it.each([
    ['at once', 1],
    ['after a wait', 0],
  ])('end with the error that sending throws: %s', async (_when, count) => {
    const { attempts, call, ended, inFlight, fixture, onSend } = await world(count);
    const broken = new Error('cannot be sent');
    onSend(() => {
      throw broken;
    });
    const failing = attempts();
    if (!failing.begin()) failing.wait();
    if (count === 0) await fixture.publish('10.0.0.1');
    expect(call.failures).toEqual([broken]);
    expect(inFlight()).toBe(0);
    expect(ended).toEqual([{ outcome: outcomes.cancelled, attempt: 1, retrying: false }]);
  });

  it('that run concurrently share their numbers and the endpoints that were tried', async () => {
    const { attempts, told, ended, fixture } = await world(3);
    const shared: SharedAttempts<FakeConnection> = { made: 0, moves: 0, tried: undefined };
    const [one, other] = [attempts(shared), attempts(shared)];
    one.begin();
    other.begin();
    expect([one.number, other.number, shared.made]).toEqual([1, 2, 2]);
    one.fail(lost());
    expect(told[2]).not.toBe(told[0]);
    expect(one.number).toBe(3);
    other.end(outcomes.success);
    expect(ended).toEqual([
      { outcome: outcomes.reset, attempt: 1, retrying: true, hedged: true },
      { outcome: outcomes.success, attempt: 2, retrying: false, hedged: true },
    ]);
    // Whoever begins the call they belong to counts it.
    expect(fixture.balancer.snapshot().counts.calls).toBe(0);
  });
});

describe('an attempt whose response is discarded', () => {
  const refused = (more: Partial<FailedAttempt> = {}) =>
    lost({ outcome: { kind: 'not-started', cause: 'overload' }, ...more });

  /** Picks in the order of the set, whatever endpoints have asked for. */
  const inOrder: PickerFactory = ({ targets }) => ({
    pick: ({ avoid }) => targets.find((target) => !avoid?.has(target)) ?? targets[0],
  });

  /** A call on the first of three endpoints; as many of the next as `paused` says asked for a pause of 10 s. */
  async function pausing(paused: number) {
    const three = await world(3, { picker: inOrder });
    const { balancer } = three.fixture;
    const avoid = new Set<Lease<FakeConnection>['subchannel']>();
    const leases = Array.from({ length: paused + 1 }, () => {
      const lease = balancer.pick({ avoid })!;
      avoid.add(lease.subchannel);
      return lease;
    });
    for (const [index, lease] of leases.entries()) {
      lease.end(index === 0 ? outcomes.notStarted : { ...outcomes.overload, retryAfterMs: 10_000 });
    }
    const call = three.attempts();
    call.begin();
    expect(three.told).toEqual(['10.0.0.1']);
    return { ...three, call };
  }

  it('moves to another endpoint, and ends at once', async () => {
    const { attempts, told, ended, inFlight } = await world(2);
    const call = attempts();
    call.begin();
    const failed = refused();
    call.move(failed, call.other(failed) as never);
    expect([new Set(told).size, inFlight()]).toEqual([2, 1]);
    call.end(outcomes.success);
    expect(inFlight()).toBe(0);
    expect(ended).toEqual([
      { outcome: failed.outcome, attempt: 1, retrying: true },
      { outcome: outcomes.success, attempt: 2, retrying: false },
    ]);
  });

  it('moves nowhere when an observer of its end makes the caller give up', async () => {
    const { attempts, told, call: caller, inFlight, onEnded } = await world(2);
    const call = attempts();
    call.begin();
    onEnded(() => call.stop());
    const failed = refused();
    call.move(failed, call.other(failed) as never);
    expect([told.length, caller.failures.length, inFlight()]).toEqual([1, 1, 0]);
  });

  it('skips an endpoint that asked for a pause', async () => {
    const { call, told, inFlight } = await pausing(1);
    const failed = refused();
    call.move(failed, call.other(failed) as never);
    expect(told).toEqual(['10.0.0.1', '10.0.0.3']);
    call.end(outcomes.success);
    expect(inFlight()).toBe(0);
  });

  it('is kept where every other endpoint asked for a pause, and costs nothing', async () => {
    const { call, told, ended, inFlight, fixture } = await pausing(2);
    const { budget } = fixture.balancer.retries as RetryRules;
    const before = budget.left;
    expect(call.other(refused())).toBeUndefined();
    expect([told.length, inFlight()]).toEqual([1, 1]);
    expect(budget.left).toBe(before);
    call.end(outcomes.overload);
    expect(ended).toEqual([{ outcome: outcomes.overload, attempt: 1, retrying: false }]);
  });
});

describe('a caller that gives up', () => {
  it('ends the wait of a call that has a signal of its own', async () => {
    const { attempts, call, fixture, told } = await world(0);
    const own = new AbortController();
    Object.assign(call, { signal: own.signal });
    const waiting = attempts();
    expect(waiting.begin()).toBe(false);
    waiting.wait();
    await settle();
    waiting.stop(new Error('gave up'));
    await settle();
    expect(told).toEqual(['waits', 'waited']);
    expect(call.failures).toMatchObject([{ message: 'gave up' }]);
    expect(fixture.balancer.snapshot().waiting).toBe(0);
  });

  it('in the hook of an observer pays for no retry', async () => {
    const { attempts, onEnded, fixture } = await world(2, { retry: { budget: { ratio: 0, minPerSecond: 10 } } });
    const { budget } = (fixture.balancer as unknown as { retries: RetryRules }).retries;
    const call = attempts();
    call.begin();
    const { left } = budget;
    onEnded(() => call.stop());
    call.fail(lost());
    expect(budget.left).toBe(left);
  });
});

it.each([
  ['resend', 'free'],
  ['repeatAs', outcomes.notStarted],
])('a call that must not be sent twice is not, even if every object inherits "%s"', async (name, value) => {
  const { attempts, told, call } = await world(2);
  const running = attempts();
  running.begin();
  Object.defineProperty(Object.prototype, name, { value, configurable: true });
  try {
    running.fail(lost({ idempotent: false }));
  } finally {
    Reflect.deleteProperty(Object.prototype, name);
  }
  expect([told.length, call.failures.length]).toEqual([1, 1]);
});
