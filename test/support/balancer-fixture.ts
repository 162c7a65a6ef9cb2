import { type Balancer, createBalancer } from '../../src/balancer/balancer.js';
import type { BalancerOptions } from '../../src/balancer/balancer-options.js';
import type { EndpointInit } from '../../src/endpoint/endpoint.js';
import type { Observer } from '../../src/observe/observer.js';
import { roundRobin } from '../../src/picker/round-robin.js';
import { FakeClock, settle } from '../../src/testing/fake-clock.js';
import { FakeResolver } from '../../src/testing/fake-resolver.js';
import { type FakeConnection, FakeTransport } from '../../src/testing/fake-transport.js';
import { seededRng } from '../../src/testing/seeded-rng.js';

/** A whole balancer over fakes; by default without stages and with round robin. */
export class BalancerFixture {
  readonly clock: FakeClock = new FakeClock();
  readonly resolver: FakeResolver = new FakeResolver();
  readonly transport: FakeTransport = new FakeTransport();
  readonly warnings: string[] = [];
  readonly balancer: Balancer<FakeConnection>;

  constructor(options: Partial<BalancerOptions<FakeConnection>> = {}) {
    const observer: Observer = {
      ...options.observer,
      warned: (event) => {
        this.warnings.push(event.message);
        options.observer?.warned?.(event);
      },
    };
    this.balancer = createBalancer({
      resolver: this.resolver,
      transport: this.transport,
      clock: this.clock,
      rng: seededRng(1),
      picker: roundRobin(),
      stages: [],
      ...options,
      observer,
    });
  }

  /** Publishes a set and waits until everything that can happen at once has happened. */
  async publish(...endpoints: readonly (string | EndpointInit)[]): Promise<void> {
    this.resolver.update(...endpoints);
    await settle();
  }

  /** The addresses of the next `count` calls; each call ends at once. */
  async addresses(count: number): Promise<string[]> {
    const found: string[] = [];
    for (let call = 0; call < count; call++) {
      found.push(await this.balancer.run((connection) => connection.endpoint.address));
    }
    return found;
  }
}

/** The error of a promise that must reject. */
export async function failure(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => {
      throw new Error('it succeeded');
    },
    (error: unknown) => error,
  );
}

/** The state of a promise after everything that can happen at once. */
export async function stateOf(promise: Promise<unknown>): Promise<'pending' | 'fulfilled' | 'rejected'> {
  let state: 'pending' | 'fulfilled' | 'rejected' = 'pending';
  promise.then(
    () => {
      state = 'fulfilled';
    },
    () => {
      state = 'rejected';
    },
  );
  await settle();
  return state;
}
