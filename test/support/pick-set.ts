import { createEndpoint } from '../../src/endpoint/endpoint.js';
import { inFlight } from '../../src/load/in-flight.js';
import type { Load, LoadFactory } from '../../src/load/load.js';
import { createPickRequest, type PickRequest, type PickSet } from '../../src/picker/picker.js';
import { Subchannel, type SubchannelOwner } from '../../src/pool/subchannel.js';
import type { Connection } from '../../src/pool/transport.js';
import { FakeClock } from '../../src/testing/fake-clock.js';

/** A connection whose capacity a test sets. */
export class Slots implements Connection<Slots> {
  capacity: number = Number.POSITIVE_INFINITY;
  readonly closed: Promise<undefined> = new Promise(() => {});

  get handle(): Slots {
    return this;
  }

  async close(): Promise<void> {}
}

/** One that reports changes of its capacity. */
export class WatchedSlots extends Slots {
  #changed: (() => void) | undefined;

  watchCapacity(changed: () => void): void {
    this.#changed = changed;
  }

  setCapacity(capacity: number): void {
    this.capacity = capacity;
    this.#changed?.();
  }
}

export type TestSubchannel = Subchannel<Slots>;

/** The loads of endpoints that know one another. */
export class KnownLoads {
  readonly loads: Set<Load> = new Set();
}

/**
 * A subchannel with a connection but without a pool, for tests of pickers.
 * @param known Whose loads its load compares itself with. @defaultValue nobody's
 */
export function subchannel(name: number | string, load: LoadFactory = inFlight(), known?: KnownLoads): TestSubchannel {
  const endpoint = createEndpoint({
    address: typeof name === 'number' ? `10.0.${name >> 8}.${name & 255}` : name,
    port: 80,
  });
  const owner = { clock: new FakeClock(), capacityGained: () => {} } as unknown as SubchannelOwner<Slots>;
  const made = load(known ?? { loads: [] });
  known?.loads.add(made);
  const result = new Subchannel<Slots>(endpoint, owner, made, []);
  result.connection = new Slots();
  return result;
}

export function subchannels(count: number, load: LoadFactory = inFlight(), known?: KnownLoads): TestSubchannel[] {
  return Array.from({ length: count }, (_, index) => subchannel(index, load, known));
}

/** The connection of a test subchannel, to change its capacity. */
export function slotsOf(of: TestSubchannel): Slots {
  return of.connection as Slots;
}

export function pickSet(
  members: readonly TestSubchannel[],
  weights: readonly number[] = members.map(() => 1),
  all: readonly TestSubchannel[] = members,
  allWeights: readonly number[] = all === members ? weights : all.map(() => 1),
): PickSet<Slots> {
  const equalWeights = weights.every((weight) => weight === weights[0]);
  return { subchannels: members, weights, equalWeights, all, allWeights };
}

export function request(more: Partial<PickRequest<Slots>> = {}): PickRequest<Slots> {
  return Object.assign(createPickRequest<Slots>(), more);
}
