import { experimental } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { ChannelState, HiddenOptions } from '../../../../src/adapter/grpc-js/channel.js';
import { type GrpcOptions, resolveGrpcOptions } from '../../../../src/adapter/grpc-js/options.js';
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
