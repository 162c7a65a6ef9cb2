import { connectivityState, experimental, Metadata, status } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { BalancedCall } from '../../../../src/adapter/grpc-js/balanced-call.js';
import { ChannelState, HiddenOptions, stateKey } from '../../../../src/adapter/grpc-js/channel.js';
import { type GrpcOptions, resolveGrpcOptions } from '../../../../src/adapter/grpc-js/options.js';
import { EvenkeelPolicy } from '../../../../src/adapter/grpc-js/policy.js';
import { Method } from '../../../../src/adapter/grpc-js/service-config.js';
import { liveBalancers } from '../../../../src/balancer/snapshot.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../../src/testing/fake-resolver.js';
import { FakeHelper } from '../../../support/fixtures/fake-subchannel.js';

const turn = () => new Promise(setImmediate);
const { PickResultType } = experimental;

/** A channel's policy over fake subchannels, and what it told its channel. */
function world(options: GrpcOptions = {}) {
  const fake = new FakeHelper();
  const resolver = new FakeResolver();
  const clock = new FakeClock();
  const states: string[] = [];
  let picker: experimental.Picker | undefined;
  const helper: experimental.ChannelControlHelper = {
    ...fake.helper,
    updateState: (state, given) => {
      states.push(connectivityState[state]);
      picker = given;
    },
  };
  let woken = 0;
  const hidden = new HiddenOptions(resolveGrpcOptions({ resolver, clock, ...options }), true);
  const presence = new ChannelState(
    { scheme: 'evenkeel', path: 'orders.shop:50051' },
    () => {
      woken++;
      return true;
    },
    { [HiddenOptions.key]: hidden },
  );
  const policy = new EvenkeelPolicy(helper);
  const update = (channelOptions: object = { [stateKey]: presence }) =>
    policy.updateAddressList(experimental.statusOrFromValue([]), undefined as never, channelOptions);
  const pick = () => picker?.pick({ metadata: new Metadata(), extraPickInfo: {} }) as experimental.PickResult;
  const call = () => new BalancedCall(new Method());
  const pickFor = (one: BalancedCall, metadata = new Metadata()) =>
    picker?.pick({ metadata, extraPickInfo: one as never }) as experimental.PickResult;
  return { fake, resolver, clock, states, presence, policy, update, pick, call, pickFor, woken: () => woken };
}

describe('the balancer of a channel', () => {
  it.each(['ready', 'close'] as const)('refuses unknown options of %s(), and has no side effect', async (method) => {
    const { presence, woken } = world();
    await expect(presence[method]({ sginal: AbortSignal.abort() } as never)).rejects.toMatchObject({
      code: 'EVENKEEL_OPTION',
      message: `${method} has no option "sginal" (did you mean "signal"?); it knows signal`,
    });
    expect([woken(), presence.closed]).toEqual([0, false]);
  });
});

describe('a policy', () => {
  it('reports its states, and gives calls an endpoint once a pod is connected', async () => {
    const { fake, resolver, states, update, pick } = world();
    expect(update()).toBe(true);
    expect(update()).toBe(true);
    expect(resolver.watchers).toBe(1);
    expect(pick().pickResultType).toBe(PickResultType.QUEUE);
    resolver.update('10.0.0.1', '10.0.0.2');
    for (let i = 0; i < 3; i++) await turn();
    expect([...new Set(states)]).toEqual(['CONNECTING', 'READY']);
    const { pickResultType, subchannel } = pick();
    expect(pickResultType).toBe(PickResultType.COMPLETE);
    expect(fake.held()).toContain(subchannel);
  });

  it('has closed every connection when destroy() returns, and everything else soon after', async () => {
    const { fake, resolver, clock, presence, policy, update, states } = world();
    fake.behaviour.set('10.0.0.2:80', 'hang');
    update();
    resolver.update('10.0.0.1', '10.0.0.2');
    for (let i = 0; i < 3; i++) await turn();
    expect(fake.held().length).toBe(2);
    const told = states.length;
    policy.destroy();
    expect(fake.held()).toEqual([]);
    expect(resolver.watchers).toBe(0);
    await turn();
    expect([clock.timers, states.length, presence.snapshot().state]).toEqual([0, told, 'idle']);
    policy.destroy();
  });

  it('makes another call wait until the first has ended', async () => {
    const { resolver, update, pick, call, pickFor, presence, states } = world({ maxConcurrentStreams: 1 });
    update();
    resolver.update('10.0.0.1');
    for (let i = 0; i < 3; i++) await turn();
    const first = pick();
    const second = call();
    expect(pickFor(second).pickResultType).toBe(PickResultType.QUEUE);
    expect(presence.snapshot().waiting).toBe(1);
    first.onCallEnded?.(status.OK, '', new Metadata());
    // The call that waits has the endpoint, and a later one does not get it.
    expect(pick().pickResultType).toBe(PickResultType.QUEUE);
    await turn();
    expect(states.at(-1)).toBe('READY');
    expect(pickFor(second).pickResultType).toBe(PickResultType.COMPLETE);
  });

  it('counts calls, those that wait, how long they wait, and those that got no endpoint', async () => {
    const { resolver, update, call, pickFor, presence, clock } = world({ maxConcurrentStreams: 1 });
    update();
    const waits: [number, boolean][] = [];
    for (const balancer of liveBalancers) {
      balancer.meter = { attemptEnded: () => {}, waited: (ms, served) => waits.push([ms, served]) };
    }
    const [first, second, third, fourth] = [call(), call(), call(), call()];
    pickFor(first);
    pickFor(second);
    clock.advance(20);
    // grpc-js tries them again and again.
    pickFor(first);
    expect(presence.snapshot()).toMatchObject({ waiting: 2, counts: { calls: 2, refused: 0 } });
    clock.advance(10);
    resolver.update('10.0.0.1');
    for (let i = 0; i < 3; i++) await turn();
    const placed = pickFor(first);
    expect(presence.snapshot().waiting).toBe(1);
    clock.advance(5);
    // Its deadline.
    second.receiveTrailers({ code: status.DEADLINE_EXCEEDED });
    await turn();
    expect(presence.snapshot()).toMatchObject({ waiting: 0, counts: { calls: 2, picks: 1 } });
    expect(waits).toEqual([
      [30, true],
      [35, false],
    ]);
    placed.onCallEnded?.(status.OK, '', new Metadata());
    first.receiveTrailers({ code: status.OK });
    resolver.update();
    for (let i = 0; i < 3; i++) await turn();
    expect(pickFor(third).pickResultType).toBe(PickResultType.DROP);
    expect(presence.snapshot()).toMatchObject({ waiting: 0, counts: { calls: 3, refused: 1 } });
    pickFor(fourth, new Metadata({ waitForReady: true }));
    expect(presence.snapshot()).toMatchObject({ waiting: 1, counts: { refused: 1 } });
    fourth.receiveTrailers({ code: status.CANCELLED });
    expect(presence.snapshot().waiting).toBe(0);
  });

  it('gives no endpoint to a call that has ended: grpc-js asks for one even after a cancellation', async () => {
    const { resolver, update, call, pickFor, presence } = world();
    update();
    resolver.update('10.0.0.1');
    for (let i = 0; i < 3; i++) await turn();
    const cancelled = call();
    cancelled.receiveTrailers({ code: status.CANCELLED, details: 'Cancelled on client' });
    expect(pickFor(cancelled).pickResultType).toBe(PickResultType.DROP);
    expect(presence.snapshot()).toMatchObject({ counts: { calls: 0, picks: 0 }, endpoints: [{ inFlight: 0 }] });
  });

  it.each([
    ['is repeated if its server refused it', status.UNAVAILABLE, 'Stream refused by server', PickResultType.COMPLETE],
    ['is not repeated if its connection was lost', status.UNAVAILABLE, 'Connection dropped', PickResultType.DROP],
  ])('a call without a retry policy %s, whatever grpc-js asks for', async (_, code, details, expected) => {
    const { resolver, update, call, pickFor } = world();
    update();
    resolver.update('10.0.0.1', '10.0.0.2');
    for (let i = 0; i < 3; i++) await turn();
    const one = call();
    const first = pickFor(one) as experimental.PickResult;
    first.onCallStarted?.();
    first.onCallEnded?.(code, details, new Metadata());
    const previous = new Metadata();
    previous.set('grpc-previous-rpc-attempts', '1');
    const second = pickFor(one, previous);
    expect(second.pickResultType).toBe(expected);
    if (expected === PickResultType.DROP) expect(second.status).toMatchObject({ code, details });
    // As grpc-js reports a status of its own for an attempt after the first.
    second.onCallEnded?.(status.UNAVAILABLE, 'Stream refused by server', previous.clone());
    if (expected === PickResultType.COMPLETE) {
      const third = new Metadata();
      third.set('grpc-previous-rpc-attempts', '2');
      expect(pickFor(one, third).pickResultType).toBe(PickResultType.COMPLETE);
    }
  });

  it('serves only targets with the scheme of evenkeel', () => {
    const { states, update, pick } = world();
    expect(update({})).toBe(true);
    expect(states).toEqual(['TRANSIENT_FAILURE']);
    expect(pick().status?.details).toMatch(/serves targets of serviceTarget\(\) only/);
  });

  it('whose balancer cannot be created gives the reason to calls and to ready()', async () => {
    const broken = {
      name: 'broken',
      watch: () => {
        throw new Error('out of order');
      },
    };
    const { states, presence, update, pick, woken } = world({ resolver: broken });
    const ready = presence.ready();
    await turn();
    expect(woken()).toBe(1);
    expect(update()).toBe(true);
    expect(states).toEqual(['TRANSIENT_FAILURE']);
    // grpc-js would try a call that is not dropped again and again, without a pause, until its deadline.
    expect(pick()).toMatchObject({
      pickResultType: PickResultType.DROP,
      status: { code: status.UNAVAILABLE, details: expect.stringMatching(/^orders\.shop:50051: .*out of order/) },
    });
    await expect(ready).rejects.toThrow('out of order');
  });
});

describe('the balancer that onBalancer gets', () => {
  it('waits for the channel, and stops waiting at an abort', async () => {
    const { presence, update, resolver } = world();
    const limit = new AbortController();
    const ready = presence.ready({ signal: limit.signal });
    limit.abort(new Error('enough'));
    await expect(ready).rejects.toThrow('enough');
    await expect(presence.ready({ signal: limit.signal })).rejects.toThrow('enough');
    const second = presence.ready();
    update();
    resolver.update();
    await second;
    expect(presence.snapshot().state).toBe('empty');
  });

  it('counts as ready if the channel was ready and then went idle', async () => {
    const { presence, policy, update, resolver, woken } = world();
    update();
    resolver.update('10.0.0.1');
    await presence.ready();
    policy.destroy();
    await presence.ready();
    expect(woken()).toBe(0);
  });

  it('closes for good, also before the channel was used', async () => {
    const { presence, update, pick, resolver } = world();
    await presence.close();
    await expect(presence.ready()).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
    expect(presence.snapshot().state).toBe('closed');
    update();
    await turn();
    expect(pick()).toMatchObject({ pickResultType: PickResultType.DROP, status: { code: status.UNAVAILABLE } });
    expect(resolver.watchers).toBe(0);
    await presence.close();
  });
});
