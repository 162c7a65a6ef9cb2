import { Client, credentials, experimental } from '@grpc/grpc-js';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { ChannelState, HiddenOptions } from '../../../../src/adapter/grpc-js/channel.js';
import { type ChannelBalancer, type GrpcOptions, resolveGrpcOptions } from '../../../../src/adapter/grpc-js/options.js';
import { serviceChannelOptions } from '../../../../src/adapter/grpc-js/target.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../../src/testing/fake-resolver.js';

/** A channel's state, as grpc-js creates it for a channel of other code. */
function stateOf(options: GrpcOptions = {}) {
  const hidden = new HiddenOptions(resolveGrpcOptions({ resolver: new FakeResolver(), ...options }), true);
  const told: Record<string, unknown>[] = [];
  const listener: experimental.ResolverListener = (_endpoints, attributes) => {
    told.push(attributes);
    return true;
  };
  const target = { scheme: 'evenkeel', path: 'orders.shop:50051' };
  return { state: new ChannelState(target, listener, { [HiddenOptions.key]: hidden }), told };
}

const turn = () => new Promise(setImmediate);

describe('a channel with a short idle timeout', () => {
  afterEach(() => void vi.useRealTimers());

  it('does not go idle while ready() waits, and does afterwards', async () => {
    // grpc-js uses the timers of Node for its idle timeout.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
    const clock = new FakeClock();
    const resolver = new FakeResolver();
    let balancer!: ChannelBalancer;
    const options = serviceChannelOptions({
      ...{ resolver, clock, startTimeoutMs: 60_000, 'grpc.client_idle_timeout_ms': 1_000 },
      onBalancer: (given) => (balancer = given),
    });
    const client = new Client('orders.shop:50051', credentials.createInsecure(), options);
    const passes = async (ms: number): Promise<void> => {
      for (let passed = 0; passed < ms; passed += 100) {
        await clock.advanceAsync(100);
        vi.advanceTimersByTime(100);
      }
    };
    let outcome: unknown;
    const ready = balancer.ready().then(
      () => (outcome = 'ready'),
      (error: unknown) => (outcome = error),
    );
    await passes(10_000);
    expect([outcome, resolver.watchers]).toEqual([undefined, 1]);
    resolver.update();
    await ready;
    expect([outcome, balancer.snapshot().state]).toEqual(['ready', 'empty']);
    await passes(2_000);
    expect([balancer.snapshot().state, clock.timers, resolver.watchers]).toEqual(['idle', 0, 0]);
    client.close();
  });
});

describe('the configuration of a call', () => {
  it('has one object per call, which every attempt gives to the picker', () => {
    const { state } = stateOf();
    const first = state.invoke('/shop.Orders/Get');
    const second = state.invoke('/shop.Orders/Get');
    expect(first.pickInformation).toBe(first.dynamicFilterFactories[0]);
    expect(first.pickInformation).not.toBe(second.pickInformation);
    state.unref();
    expect(state.invoke('/shop.Orders/Get').methodConfig.name).toEqual([]);
  });
});

describe('the state of a channel', () => {
  it('sets up its policy and configuration when it wakes, once, and never while it is being read', async () => {
    const { state, told } = stateOf();
    state.updateResolution();
    state.updateResolution();
    expect(told).toEqual([]);
    await turn();
    expect(told).toMatchObject([{ [experimental.CHANNEL_ARGS_CONFIG_SELECTOR_KEY]: state }]);
    state.destroy();
    state.updateResolution();
    state.destroy();
    await turn();
    expect(told.length).toBe(1);
  });

  it.each(['close', 'destroy'] as const)('ends the wait for it to wake with %s()', async (end) => {
    const { state } = stateOf();
    const ready = state.ready();
    void state[end]();
    await expect(ready).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
  });

  it('exposes what applications use, and nothing that grpc-js uses', () => {
    let given: object = {};
    stateOf({ onBalancer: (balancer) => (given = balancer) });
    expect(Reflect.ownKeys(given)).toEqual(['ready', 'snapshot', 'close', Symbol.asyncDispose]);
  });
});
