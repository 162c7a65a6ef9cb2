import { describe, expect, it } from 'vitest';
import type { BalancerOptions } from '../../../src/balancer/balancer-options.js';
import type { Lease } from '../../../src/call/lease.js';
import type { StageFactory } from '../../../src/stage/stage.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { type FakeConnection, FakeTransport } from '../../../src/testing/fake-transport.js';
import { BalancerFixture } from '../../support/fixtures/balancer-fixture.js';

/** Connections open one by one, when the test says so. */
class OneByOne extends FakeTransport {
  /** Addresses, in the order connections were asked for. */
  readonly asked: string[] = [];
  readonly #gates = new Map<string, () => void>();

  override async connect(...[endpoint, signal]: Parameters<FakeTransport['connect']>): Promise<FakeConnection> {
    this.asked.push(endpoint.address);
    await new Promise<void>((resolve) => this.#gates.set(endpoint.address, resolve));
    return super.connect(endpoint, signal);
  }

  async admit(address: string): Promise<void> {
    this.#gates.get(address)?.();
    await settle();
  }
}

const pods = ['10.0.0.1', '10.0.0.2', '10.0.0.3'];

describe('the first callers of a balancer', () => {
  const begin = async (callers: number, options: Partial<BalancerOptions<FakeConnection>> = {}) => {
    const transport = new OneByOne();
    const fixture = Object.assign(new BalancerFixture({ transport, ...options }), { attempted: transport.asked });
    await fixture.publish(...pods);
    const served: string[] = [];
    const note = ({ endpoint }: Lease<FakeConnection>) => served.push(endpoint.address);
    for (let caller = 0; caller < callers; caller++) void fixture.balancer.acquire().then(note);
    await settle();
    return { transport, fixture, served };
  };

  it('do not all go to the endpoint that connects first', async () => {
    const { transport, served } = await begin(6);
    for (const pod of pods) {
      expect(served).toEqual([]);
      await transport.admit(pod);
    }
    expect(served.sort()).toEqual(pods.flatMap((pod) => [pod, pod]));
  });

  it('wait no longer than 20 ms for an endpoint that does not connect', async () => {
    const { transport, fixture, served } = await begin(2);
    await transport.admit('10.0.0.2');
    await fixture.clock.advanceAsync(19);
    expect(served).toEqual([]);
    await fixture.clock.advanceAsync(1);
    expect(served).toEqual(['10.0.0.2', '10.0.0.2']);
  });

  it('wait, also a single one, for the two endpoints drawn for the first calls, and use one of them', async () => {
    const { transport, fixture, served } = await begin(1);
    // Attempts are made in the order that was drawn.
    const [first, second, third] = fixture.attempted as [string, string, string];
    for (const pod of [third, second]) {
      await transport.admit(pod);
      expect(served).toEqual([]);
    }
    await transport.admit(first);
    expect(served).toHaveLength(1);
    expect([first, second]).toContain(served[0]);
    // The next call goes to the other one, those that follow to all.
    expect((await fixture.addresses(1)).concat(served).sort()).toEqual([first, second].sort());
    expect((await fixture.addresses(3)).sort()).toEqual(pods);
  });

  it('wait no longer than 20 ms where one of the drawn endpoints hangs, and not at all where it fails', async () => {
    for (const failing of [false, true]) {
      const { transport, fixture, served } = await begin(1);
      const [first, second, third] = fixture.attempted as [string, string, string];
      await transport.admit(second);
      await transport.admit(third);
      expect(served).toEqual([]);
      if (failing) {
        transport.behaviour.set(`${first}:80`, 'refuse');
        await transport.admit(first);
        expect([second, third]).toContain(served[0]);
      } else {
        await fixture.clock.advanceAsync(19);
        expect(served).toEqual([]);
        await fixture.clock.advanceAsync(1);
        expect(served).toHaveLength(1);
      }
    }
  });

  it('are not all sent to the one ready endpoint because a stage recomputes meanwhile', async () => {
    let invalidate = (): void => {};
    const stage: StageFactory = (context) => {
      invalidate = context.invalidate;
      return { apply: (set) => set };
    };
    const { transport, fixture, served } = await begin(6, { stages: [stage] });
    await transport.admit('10.0.0.1');
    for (let again = 0; again < 3; again++) {
      invalidate();
      await fixture.clock.advanceAsync(5);
    }
    expect(served).toEqual([]);
    // Put off, but not for longer than without it.
    invalidate();
    await fixture.clock.advanceAsync(5);
    expect(served).toEqual(new Array(6).fill('10.0.0.1'));
  });

  it('use the two endpoints drawn from the new set if one is published meanwhile', async () => {
    const { transport, fixture, served } = await begin(1);
    const before = fixture.attempted.length;
    await fixture.publish('10.0.0.4', '10.0.0.5', '10.0.0.6');
    const [first, second, third] = fixture.attempted.slice(before) as [string, string, string];
    await transport.admit(third);
    await transport.admit(first);
    expect(served).toEqual([]);
    await transport.admit(second);
    expect([first, second]).toContain(served[0]);
  });

  it('are not all sent to an endpoint that is added while the others connect', async () => {
    const { transport, fixture, served } = await begin(1);
    const [first, second] = fixture.attempted as [string, string];
    await fixture.publish(...pods, '10.0.0.4');
    await transport.admit('10.0.0.4');
    expect(served).toEqual([]);
    await transport.admit(first);
    await transport.admit(second);
    expect([first, second]).toContain(served[0]);
  });

  it('are spread evenly if one of the endpoints drawn for them stands by meanwhile', async () => {
    const onStandby = new Set<string>();
    let invalidate = (): void => {};
    const stage: StageFactory = (context) => {
      invalidate = context.invalidate;
      return {
        apply: (set) => set.map((entry) => (onStandby.has(entry.endpoint.address) ? { ...entry, weight: 0 } : entry)),
      };
    };
    const { transport, fixture, served } = await begin(4, { stages: [stage] });
    const [first, second, third] = fixture.attempted as [string, string, string];
    onStandby.add(first);
    invalidate();
    for (const pod of [first, second, third]) await transport.admit(pod);
    expect(served.sort()).toEqual([second, second, third, third].sort());
  });

  it('are not sent to endpoints that stand by', async () => {
    const stage: StageFactory = () => ({
      apply: (set) => set.map((entry) => (entry.endpoint.address === pods[1] ? entry : { ...entry, weight: 0 })),
    });
    const { transport, served } = await begin(1, { stages: [stage] });
    await transport.admit('10.0.0.2');
    expect(served).toEqual(['10.0.0.2']);
  });

  it('use another endpoint where those drawn for them have become full', async () => {
    const { transport, fixture } = await begin(0);
    fixture.balancer.pick();
    fixture.balancer.pick();
    const [, , third] = fixture.attempted as [string, string, string];
    for (const pod of pods) await transport.admit(pod);
    for (const connection of transport.connections) {
      if (connection.endpoint.address !== third) Object.assign(connection, { capacity: 0 });
    }
    expect(fixture.balancer.pick()?.endpoint.address).toBe(third);
  });

  it('include those that wait outside the balancer, as in a gRPC channel', async () => {
    const transport = new OneByOne();
    const fixture = new BalancerFixture({ transport });
    expect(fixture.balancer.pick()).toBeUndefined();
    await fixture.publish(...pods);
    expect(fixture.balancer.pick()).toBeUndefined();
    await transport.admit('10.0.0.2');
    expect(fixture.balancer.pick()).toBeUndefined();
    await transport.admit('10.0.0.1');
    await transport.admit('10.0.0.3');
    const served = pods.map(() => fixture.balancer.pick()?.endpoint.address);
    expect(served.sort()).toEqual(pods);
  });

  it('that wait outside the balancer wait no longer than 20 ms either', async () => {
    const transport = new OneByOne();
    const fixture = new BalancerFixture({ transport });
    await fixture.publish(...pods);
    fixture.balancer.pick();
    fixture.balancer.pick();
    await transport.admit('10.0.0.2');
    await fixture.clock.advanceAsync(19);
    expect(fixture.balancer.pick()).toBeUndefined();
    await fixture.clock.advanceAsync(1);
    expect(fixture.balancer.pick()?.endpoint.address).toBe('10.0.0.2');
  });
});
