import { connectivityState, experimental, Metadata, status } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { BalancedCall } from '../../../../src/adapter/grpc-js/balanced-call.js';
import { ChannelState, HiddenOptions, stateKey } from '../../../../src/adapter/grpc-js/channel.js';
import { type GrpcOptions, resolveGrpcOptions } from '../../../../src/adapter/grpc-js/options.js';
import { EvenkeelPolicy } from '../../../../src/adapter/grpc-js/policy.js';
import { Method } from '../../../../src/adapter/grpc-js/service-config.js';
import { ResolveError } from '../../../../src/errors.js';
import { fixed } from '../../../../src/limit/fixed.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../../src/testing/fake-resolver.js';
import { seededRng } from '../../../../src/testing/seeded-rng.js';
import { FakeHelper } from '../../../support/fixtures/fake-subchannel.js';

const turn = () => new Promise(setImmediate);
const turns = async () => {
  for (let i = 0; i < 3; i++) await turn();
};
const { PickResultType } = experimental;

/** A call as grpc-js keeps one: it picks when it starts and again at each change of the channel while it is queued. */
class FakeCall {
  readonly balanced = new BalancedCall(new Method());
  readonly metadata: Metadata;
  readonly #channel: FakeChannel;
  /** The pick with which the call was placed, while it runs. */
  running: experimental.PickResult | undefined;
  /** How often the call was placed. */
  placed = 0;
  /** The text of the status with which the call ended. */
  ended: string | undefined;

  constructor(channel: FakeChannel, metadata: Metadata) {
    this.#channel = channel;
    this.metadata = metadata;
    this.pick();
  }

  get isWaiting(): boolean {
    return this.ended === undefined && this.running === undefined;
  }

  pick(): void {
    if (this.ended !== undefined) return;
    const extraPickInfo = this.balanced as never;
    const result = this.#channel.picker?.pick({ metadata: this.metadata.clone(), extraPickInfo });
    const type = result?.pickResultType;
    if (type === PickResultType.COMPLETE) {
      this.placed++;
      this.running = result;
      result?.onCallStarted?.();
      return;
    }
    const isKept = type === PickResultType.TRANSIENT_FAILURE && this.metadata.getOptions().waitForReady === true;
    if (type === PickResultType.QUEUE || isKept) this.#channel.queue.add(this);
    else this.end(result?.status?.code ?? status.UNKNOWN, result?.status?.details);
  }

  /** The call ends: its server answered, its caller cancelled it, its deadline passed, or it was refused. */
  end(code: status, details = ''): void {
    if (this.ended !== undefined) return;
    this.ended = details === '' ? status[code] : details;
    this.#channel.queue.delete(this);
    this.running?.onCallEnded?.(code, details, new Metadata());
    this.running = undefined;
    this.balanced.receiveTrailers({ code, details });
  }
}

/** A channel of grpc-js as far as a policy notices one, over fake subchannels. */
class FakeChannel {
  readonly fake = new FakeHelper();
  readonly resolver = new FakeResolver();
  readonly clock = new FakeClock();
  readonly calls: FakeCall[] = [];
  readonly states: string[] = [];
  queue = new Set<FakeCall>();
  picker: experimental.Picker | undefined;
  readonly state: ChannelState;
  readonly policy: EvenkeelPolicy;

  constructor(options: GrpcOptions = {}) {
    const resolved = resolveGrpcOptions({ resolver: this.resolver, clock: this.clock, rng: seededRng(1), ...options });
    const target = { scheme: 'evenkeel', path: 'orders.shop:50051' };
    this.state = new ChannelState(target, () => true, { [HiddenOptions.key]: new HiddenOptions(resolved, true) });
    this.policy = new EvenkeelPolicy({
      ...this.fake.helper,
      updateState: (state, picker) => {
        this.states.push(connectivityState[state]);
        this.picker = picker;
        const waiting = this.queue;
        this.queue = new Set();
        for (const call of waiting) call.pick();
      },
    });
    this.policy.updateAddressList(experimental.statusOrFromValue([]), undefined as never, { [stateKey]: this.state });
  }

  call(waitForReady = false, entries: Readonly<Record<string, string>> = {}): FakeCall {
    const metadata = new Metadata({ waitForReady });
    for (const [name, value] of Object.entries(entries)) metadata.set(name, value);
    const call = new FakeCall(this, metadata);
    this.calls.push(call);
    return call;
  }

  async publish(...addresses: string[]): Promise<void> {
    this.resolver.update(...addresses);
    await turns();
  }

  get inFlight(): number {
    return this.state.snapshot().endpoints.reduce((sum, { inFlight }) => sum + inFlight, 0);
  }
}

const full = { maxConcurrentStreams: 1 };

describe('a call that no endpoint can take', () => {
  it('waits, and fails after waitTimeoutMs', async () => {
    const channel = new FakeChannel({ ...full, waitTimeoutMs: 5_000 });
    await channel.publish('10.0.0.1');
    const running = channel.call();
    const waiting = channel.call();
    await channel.clock.advanceAsync(4_999);
    expect(waiting.isWaiting).toBe(true);
    await channel.clock.advanceAsync(1);
    expect(waiting.ended).toBe(
      'orders.shop:50051: no endpoint could take the call within 5000 ms (1 at capacity) (EVENKEEL_NOT_READY)',
    );
    // The channel is READY all the time, and the next call waits again.
    expect(channel.states.at(-1)).toBe('READY');
    expect(channel.call().isWaiting).toBe(true);
    running.end(status.OK);
    await turns();
    expect(channel.calls.at(-1)?.running).toBeDefined();
  });

  it('waits for as long, whoever is placed meanwhile', async () => {
    const channel = new FakeChannel({ ...full, waitTimeoutMs: 100 });
    await channel.publish('10.0.0.1');
    const first = channel.call();
    const [second, third] = [channel.call(), channel.call()];
    await channel.clock.advanceAsync(90);
    first.end(status.OK);
    await turns();
    expect([second.placed, third.placed]).toEqual([1, 0]);
    await channel.clock.advanceAsync(10);
    expect(third.ended).toContain('within 100 ms');
  });

  it('has all its time, although one that waited before it was cancelled', async () => {
    const channel = new FakeChannel({ waitTimeoutMs: 5_000 });
    const first = channel.call();
    await channel.clock.advanceAsync(2_000);
    first.end(status.CANCELLED, 'Cancelled on client');
    const second = channel.call();
    await channel.clock.advanceAsync(1_000);
    const third = channel.call();
    await channel.clock.advanceAsync(3_999);
    expect([second.isWaiting, third.isWaiting]).toEqual([true, true]);
    await channel.clock.advanceAsync(1);
    expect(second.ended).toContain('no answer within 5000 ms (EVENKEEL_NOT_READY)');
    expect(third.isWaiting).toBe(true);
    expect(channel.states).not.toContain('TRANSIENT_FAILURE');
  });

  it('leaves no timer behind when it is cancelled', async () => {
    const channel = new FakeChannel({ waitTimeoutMs: 5_000 });
    const before = channel.clock.timers;
    const only = channel.call();
    expect(channel.clock.timers).toBe(before + 1);
    only.end(status.CANCELLED);
    expect(channel.clock.timers).toBe(before);
  });

  it('waits for the first endpoint if that is configured', async () => {
    const channel = new FakeChannel({ waitTimeoutMs: 100, waitForEndpoints: true });
    await channel.publish();
    const failing = channel.call();
    await channel.clock.advanceAsync(100);
    expect(failing.ended).toContain('EVENKEEL_NO_ENDPOINTS');
    const served = channel.call();
    await channel.publish('10.0.0.1');
    expect(served.placed).toBe(1);
  });

  it('is turned away beyond maxWaiting, until a call that waits has left', async () => {
    const channel = new FakeChannel({ maxWaiting: 2 });
    const waiting = [channel.call(), channel.call()];
    const refused = [channel.call(), channel.call(true)];
    await turns();
    const text = 'orders.shop:50051: 2 callers are already waiting for an endpoint (maxWaiting) (EVENKEEL_QUEUE_FULL)';
    expect(refused.map(({ ended }) => ended)).toEqual([text, text]);
    waiting[0]?.end(status.CANCELLED);
    const next = channel.call();
    await turns();
    expect(next.isWaiting).toBe(true);
  });

  it('is served by priority, also where it waits for a connection', async () => {
    const channel = new FakeChannel({ ...full, priority: 'rank' });
    const [sheddable, usual, critical] = [
      channel.call(false, { rank: 'sheddable' }),
      channel.call(),
      channel.call(false, { rank: 'critical' }),
    ];
    await channel.publish('10.0.0.1');
    expect([critical.placed, usual.placed, sheddable.placed]).toEqual([1, 0, 0]);
    critical.end(status.OK);
    await turns();
    expect([usual.placed, sheddable.placed]).toEqual([1, 0]);
  });

  it('waits on, for the rest of its time, if the connection it got was lost before it began', async () => {
    const channel = new FakeChannel({
      ...full,
      waitTimeoutMs: 1_000,
      picker: (set) => ({ pick: () => set.targets[0] }),
    });
    await channel.publish('10.0.0.1');
    await channel.clock.advanceAsync(100);
    channel.fake.behaviour.set('10.0.0.1:80', 'hang');
    channel.fake.subchannels[0]?.become(connectivityState.IDLE);
    const call = channel.call();
    await turns();
    expect(call.isWaiting).toBe(true);
    expect(channel.state.snapshot().endpoints).toMatchObject([{ inFlight: 0, failed: 0 }]);
    await channel.clock.advanceAsync(1_000);
    expect(call.ended).toContain('within 1000 ms');
  });
});

describe('a call with waitForReady', () => {
  it('waits in the balancer, while the Service is empty and while its resolver or its pods fail', async () => {
    const channel = new FakeChannel();
    channel.resolver.fail(new ResolveError('forbidden', { permanent: true }));
    await turns();
    const call = channel.call(true);
    await turns();
    expect([call.isWaiting, channel.state.snapshot().waiting]).toEqual([true, 1]);
    await channel.publish();
    channel.fake.behaviour.set('10.0.0.1:80', 'refuse');
    await channel.publish('10.0.0.1');
    expect(channel.states.at(-1)).toBe('TRANSIENT_FAILURE');
    await channel.clock.advanceAsync(600_000);
    expect([call.isWaiting, channel.state.snapshot().waiting]).toEqual([true, 1]);
    expect(channel.state.snapshot().counts.refused).toBe(0);
    channel.fake.behaviour.delete('10.0.0.1:80');
    for (let i = 0; i < 20 && call.placed === 0; i++) {
      await channel.clock.advanceAsync(30_000);
      await turns();
    }
    expect([call.placed, channel.state.snapshot().waiting]).toEqual([1, 0]);
  });
});

describe('1,000 calls that wait', () => {
  it('are each placed once, cancelled, timed out or closed, and leave nothing behind', async () => {
    const channel = new FakeChannel({ maxConcurrentStreams: 3, waitTimeoutMs: 5_000 });
    const calls = Array.from({ length: 1_000 }, (_, index) => channel.call(index % 5 === 0));
    await turns();
    expect(channel.state.snapshot().waiting).toBe(1_000);
    // Half of them are cancelled or reach their deadlines, some in the moment in which they are given an endpoint.
    const gone = calls.filter((_, index) => index % 2 === 0);
    for (const call of gone.slice(0, 250)) call.end(status.CANCELLED);
    channel.resolver.update('10.0.0.1', '10.0.0.2');
    await turn();
    for (const call of gone.slice(250)) call.end(status.DEADLINE_EXCEEDED);
    await turns();
    expect(channel.inFlight).toBe(6);
    for (let round = 0; round < 40; round++) {
      for (const call of calls) if (call.running !== undefined) call.end(status.OK);
      await turns();
    }
    const placed = calls.filter((call) => call.placed > 0).length;
    expect(placed).toBeGreaterThanOrEqual(240);
    expect(Math.max(...calls.map((call) => call.placed))).toBe(1);
    // Without time for the rest, except for those that wait for ready, which the end of the channel fails.
    await channel.clock.advanceAsync(5_000);
    await turns();
    const left = calls.filter((call) => call.isWaiting);
    expect(left.every(({ metadata }) => metadata.getOptions().waitForReady)).toBe(true);
    expect(channel.state.snapshot().waiting).toBe(left.length);
    expect(left.length).toBeGreaterThan(0);
    const closed = channel.state.close({ signal: AbortSignal.abort() });
    await turns();
    expect(left.every(({ ended }) => ended?.includes('EVENKEEL_CLOSED'))).toBe(true);
    await closed;
    for (const call of calls) call.end(status.OK);
    channel.policy.destroy();
    await turns();
    expect([channel.queue.size, channel.inFlight, channel.clock.timers, channel.fake.held().length]).toEqual([
      0, 0, 0, 0,
    ]);
  });

  it.each(Array.from({ length: 20 }, (_, seed) => seed))('survive whatever happens to them: seed %i', async (seed) => {
    const rng = seededRng(seed);
    const chance = (ratio: number) => rng.next() < ratio;
    const one = <T>(of: readonly T[]): T | undefined => of[Math.floor(rng.next() * of.length)];
    const addresses = ['10.0.0.1', '10.0.0.2', '10.0.0.3'];
    const channel = new FakeChannel({ maxConcurrentStreams: 2, waitTimeoutMs: 1_000, maxWaiting: 60 });
    const { calls, fake, clock, resolver, state } = channel;
    for (let step = 0; step < 150; step++) {
      for (let more = Math.floor(rng.next() * 5); more > 0; more--) channel.call(chance(0.2));
      if (chance(0.1)) resolver.update(...addresses.filter(() => chance(0.7)));
      if (chance(0.1)) {
        for (const address of addresses) {
          fake.behaviour.set(`${address}:80`, one(['accept', 'accept', 'refuse', 'hang'] as const) ?? 'accept');
        }
      }
      if (chance(0.1)) one(fake.held())?.become(connectivityState.IDLE);
      if (chance(0.03)) resolver.fail(new ResolveError('out of order', { permanent: chance(0.5) }));
      for (const call of calls) {
        if (call.ended !== undefined || !chance(0.1)) continue;
        call.end(call.running === undefined ? status.CANCELLED : (one([status.OK, status.UNAVAILABLE]) ?? status.OK));
      }
      const pause = rng.next();
      if (pause < 0.5) await turn();
      else if (pause < 0.75) await clock.advanceAsync(rng.next() * 500);
      expect(Math.max(0, ...calls.map(({ placed }) => placed))).toBeLessThan(2);
    }
    // What waits now is served once pods accept connections again and running calls end.
    for (const address of addresses) fake.behaviour.set(`${address}:80`, 'accept');
    resolver.update(...addresses);
    for (let round = 0; round < 100 && calls.some((call) => call.ended === undefined); round++) {
      for (const call of calls) if (call.running !== undefined) call.end(status.OK);
      await clock.advanceAsync(1_000);
      await turns();
    }
    expect(calls.filter((call) => call.ended === undefined)).toEqual([]);
    expect(state.snapshot()).toMatchObject({ waiting: 0 });
    expect([channel.inFlight, channel.queue.size]).toEqual([0, 0]);
    channel.policy.destroy();
    await turns();
    expect(clock.timers).toBe(0);
  });
});

it('a key or priority that is async by mistake ends no process when it rejects', async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown): void => void unhandled.push(reason);
  process.on('unhandledRejection', note);
  const rejecting = (async () => Promise.reject(new Error('broken'))) as never;
  const channel = new FakeChannel({ key: rejecting, priority: rejecting, limit: fixed(10) });
  await channel.publish('10.0.0.1');
  const call = channel.call();
  await turns();
  process.off('unhandledRejection', note);
  expect([call.placed, unhandled]).toEqual([1, []]);
});
