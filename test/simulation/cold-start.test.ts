import { describe, expect, it } from 'vitest';
import { createBalancer } from '../../src/balancer/balancer.js';
import type { Lease } from '../../src/call/lease.js';
import type { LoadFactory } from '../../src/load/load.js';
import { peakEwma } from '../../src/load/peak-ewma.js';
import { leastLoaded } from '../../src/picker/least-loaded.js';
import { p2c } from '../../src/picker/p2c.js';
import type { PickerFactory } from '../../src/picker/picker.js';
import { roundRobin } from '../../src/picker/round-robin.js';
import { staticEndpoints } from '../../src/resolver/static.js';
import type { Rng } from '../../src/runtime/rng.js';
import { FakeClock } from '../../src/testing/fake-clock.js';
import { type FakeConnection, FakeTransport } from '../../src/testing/fake-transport.js';
import { seededRng } from '../../src/testing/seeded-rng.js';
import { PROOF } from './lib/proof.js';
import { lognormal } from './lib/server.js';

/**
 * A pod's calls of 250 have a standard error of 1 / sqrt(83) = 9 % of a third of them, of 1,000 half as much: `spread` allows what chance
 * does in one of 10,000 cases, 33 % or 17 %. If the first calls went to the pod that connects first, it would have three times its share.
 */
const CLIENTS = PROOF ? 1_000 : 250;
/** With many pods a client takes long to simulate. */
const CLIENTS_OF_MANY = PROOF ? 1_000 : 120;

/** How long a connection to pod `index` of `pods` takes to open, in ms. */
type ConnectTime = (index: number, rng: Rng) => number;

const networks: Readonly<Record<string, ConnectTime>> = {
  'equal to the microsecond': () => 0.4,
  'equal, as far as a network goes': (_index, rng) => lognormal(0.5, 0.5)(rng),
  'in three zones': (index, rng) => 0.2 + 0.6 * (index % 3) + lognormal(0.2, 0.5)(rng),
  'in three zones, over TLS': (index, rng) => 3 * (0.4 + 0.6 * (index % 3)) + lognormal(2, 0.5)(rng),
  'one of them on a busy node': (index, rng) => (index === 1 ? 12 : 0.4) + lognormal(0.2, 0.5)(rng),
};

/** Connections that take their time. */
class Network extends FakeTransport {
  readonly #clock: FakeClock;
  readonly #timeOf: (address: string) => number;

  constructor(clock: FakeClock, timeOf: (address: string) => number) {
    super();
    this.#clock = clock;
    this.#timeOf = timeOf;
  }

  override async connect(...[endpoint, signal]: Parameters<FakeTransport['connect']>): Promise<FakeConnection> {
    await new Promise<void>((resolve, reject) => {
      this.#clock.timer(resolve, this.#timeOf(endpoint.address));
      signal.addEventListener('abort', () => reject(signal.reason));
    });
    return super.connect(endpoint, signal);
  }
}

interface Start {
  readonly pods: number;
  readonly network: ConnectTime;
  readonly picker?: PickerFactory;
  readonly load?: LoadFactory;
  /** How many calls begin together. */
  readonly burst?: number;
}

/** The pods the first calls of one fresh client go to, one after the other or all at once. */
async function freshClient(seed: number, start: Start): Promise<number[]> {
  const { pods, network, picker = p2c(), load, burst = 1 } = start;
  const clock = new FakeClock();
  const rng = seededRng(seed);
  const chance = seededRng(seed + 0x5eed);
  const endpoints = Array.from({ length: pods }, (_, index) => ({ address: `10.0.0.${index + 1}`, port: 80 }));
  const indexOf = new Map(endpoints.map(({ address }, index) => [address, index]));
  const balancer = createBalancer({
    resolver: staticEndpoints(endpoints),
    transport: new Network(clock, (address) => network(indexOf.get(address) as number, chance)),
    clock,
    rng,
    picker,
    ...(load && { load }),
  });
  const served: number[] = [];
  const call = (): Promise<void> =>
    balancer.run(async (_connection, lease: Lease<FakeConnection>) => {
      served.push(indexOf.get(lease.endpoint.address) as number);
      await new Promise<void>((resolve) => clock.timer(resolve, lognormal(1, 0.5)(chance)));
    });
  let over = false;
  const calls = async (): Promise<void> => {
    if (burst > 1) await Promise.all(Array.from({ length: burst }, call));
    else {
      await call();
      await call();
    }
    over = true;
  };
  const done = calls();
  while (!over) await clock.advanceAsync(1);
  await done;
  await balancer.close({ signal: AbortSignal.abort() });
  return served;
}

/** Calls per pod against the mean, the most of all pods; and the same if they had been drawn by lot, at worst. */
function spread(served: readonly number[], pods: number): { readonly most: number; readonly byLot: number } {
  const calls = new Array<number>(pods).fill(0);
  for (const pod of served) calls[pod] = (calls[pod] as number) + 1;
  const mean = served.length / pods;
  return { most: Math.max(...calls) / mean, byLot: mostByLot(served.length, 1 / pods) / mean };
}

/** What a pod that is drawn with probability `share` each time gets more of in one of 10,000 cases only. */
function mostByLot(draws: number, share: number): number {
  const mean = draws * share;
  // The normal distribution is right for many; of few the binomial one has the longer tail.
  if (mean > 100) return mean + 3.72 * Math.sqrt(mean * (1 - share));
  let probability = (1 - share) ** draws;
  let above = 1 - probability;
  let most = 0;
  while (above > 1e-4) {
    probability *= ((draws - most) / (most + 1)) * (share / (1 - share));
    most++;
    above -= probability;
  }
  return most;
}

const pickers: readonly [string, Pick<Start, 'picker' | 'load'>][] = [
  ['p2c', {}],
  ['p2c by latency', { load: peakEwma() }],
  ['round robin', { picker: roundRobin() }],
  ['least loaded', { picker: leastLoaded() }],
];

describe.each(Object.entries(networks))(`${CLIENTS} clients that start together, pods %s`, (_name, network) => {
  const each = async (start: Omit<Start, 'network'>, many = CLIENTS): Promise<number[][]> => {
    const clients: number[][] = [];
    for (let seed = 1; seed <= many; seed++) clients.push(await freshClient(seed, { ...start, network }));
    return clients;
  };

  it.each(pickers)(
    '%s: first and second calls are spread over 3 pods as evenly as random picks',
    async (_picker, which) => {
      const clients = await each({ pods: 3, ...which });
      for (const nth of [0, 1]) {
        const { most, byLot } = spread(
          clients.map((served) => served[nth] as number),
          3,
        );
        expect(most, `call ${nth + 1}`).toBeLessThanOrEqual(byLot);
      }
    },
  );

  it('first and second calls to 40 pods, more than connect at once', async () => {
    const clients = await each({ pods: 40 }, CLIENTS_OF_MANY);
    for (const nth of [0, 1]) {
      const { most, byLot } = spread(
        clients.map((served) => served[nth] as number),
        40,
      );
      expect(most, `call ${nth + 1}`).toBeLessThanOrEqual(byLot);
    }
  });

  it('ten first calls at once', async () => {
    const { most, byLot } = spread((await each({ pods: 3, burst: 10 }, CLIENTS_OF_MANY)).flat(), 3);
    expect(most).toBeLessThanOrEqual(byLot);
  });
});
