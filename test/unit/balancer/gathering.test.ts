import { describe, expect, it } from 'vitest';
import type { Lease } from '../../../src/balancer/lease.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { type FakeConnection, FakeTransport } from '../../../src/testing/fake-transport.js';
import { BalancerHouse } from '../../support/balancer-house.js';

/** Connections open one by one, when the test says so. */
class OneByOne extends FakeTransport {
  readonly #gates = new Map<string, () => void>();

  override async connect(...[endpoint, signal]: Parameters<FakeTransport['connect']>): Promise<FakeConnection> {
    await new Promise<void>((resolve) => this.#gates.set(endpoint.address, resolve));
    return super.connect(endpoint, signal);
  }

  async admit(address: string): Promise<void> {
    this.#gates.get(address)?.();
    await settle();
  }
}

const pods = ['10.0.0.1', '10.0.0.2', '10.0.0.3'];

describe('the callers of a start', () => {
  const begin = async (callers: number) => {
    const transport = new OneByOne();
    const house = new BalancerHouse({ transport });
    await house.publish(...pods);
    const served: string[] = [];
    const note = ({ endpoint }: Lease<FakeConnection>) => served.push(endpoint.address);
    for (let caller = 0; caller < callers; caller++) void house.balancer.acquire().then(note);
    await settle();
    return { transport, house, served };
  };

  it('do not all go to the endpoint that connects first', async () => {
    const { transport, served } = await begin(6);
    for (const pod of pods) {
      expect(served).toEqual([]);
      await transport.admit(pod);
    }
    expect(served.sort()).toEqual(pods.flatMap((pod) => [pod, pod]));
  });

  it('wait no longer than a moment for one that does not connect', async () => {
    const { transport, house, served } = await begin(2);
    await transport.admit('10.0.0.2');
    await house.clock.advanceAsync(19);
    expect(served).toEqual([]);
    await house.clock.advanceAsync(1);
    expect(served).toEqual(['10.0.0.2', '10.0.0.2']);
  });

  it('one alone waits for nobody', async () => {
    const { transport, served } = await begin(1);
    await transport.admit('10.0.0.3');
    expect(served).toEqual(['10.0.0.3']);
  });

  it('are also those who wait elsewhere, as in a gRPC channel: their picks brought nothing', async () => {
    const transport = new OneByOne();
    const house = new BalancerHouse({ transport });
    expect(house.balancer.pick()).toBeUndefined();
    await house.publish(...pods);
    expect(house.balancer.pick()).toBeUndefined();
    await transport.admit('10.0.0.2');
    expect(house.balancer.pick()).toBeUndefined();
    await transport.admit('10.0.0.1');
    await transport.admit('10.0.0.3');
    const served = pods.map(() => house.balancer.pick()?.endpoint.address);
    expect(served.sort()).toEqual(pods);
  });

  it('elsewhere, too, wait no longer than a moment, and one alone for nobody', async () => {
    const transport = new OneByOne();
    const house = new BalancerHouse({ transport });
    await house.publish(...pods);
    house.balancer.pick();
    house.balancer.pick();
    await transport.admit('10.0.0.2');
    await house.clock.advanceAsync(19);
    expect(house.balancer.pick()).toBeUndefined();
    await house.clock.advanceAsync(1);
    expect(house.balancer.pick()?.endpoint.address).toBe('10.0.0.2');

    const second = new OneByOne();
    const alone = new BalancerHouse({ transport: second });
    await alone.publish(...pods);
    expect(alone.balancer.pick()).toBeUndefined();
    await second.admit('10.0.0.3');
    expect(alone.balancer.pick()?.endpoint.address).toBe('10.0.0.3');
  });
});
