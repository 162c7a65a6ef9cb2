import { describe, expect, it } from 'vitest';
import type { EndpointSnapshot } from '../../../src/balancer/snapshot.js';
import { callLease, type Lease } from '../../../src/call/lease.js';
import type { EndpointInit } from '../../../src/endpoint/endpoint.js';
import { type Outcome, outcomes } from '../../../src/endpoint/outcome.js';
import { inFlight } from '../../../src/load/in-flight.js';
import { peakEwma } from '../../../src/load/peak-ewma.js';
import { reported } from '../../../src/load/reported.js';
import { hash } from '../../../src/picker/hash.js';
import { leastLoaded, neverQueue, shortestExpectedDelay } from '../../../src/picker/least-loaded.js';
import { p2c } from '../../../src/picker/p2c.js';
import type { PickerFactory } from '../../../src/picker/picker.js';
import { random } from '../../../src/picker/random.js';
import { roundRobin } from '../../../src/picker/round-robin.js';
import { weightedRoundRobin } from '../../../src/picker/weighted-round-robin.js';
import { drawIndex, type Rng } from '../../../src/runtime/rng.js';
import { activeHealth } from '../../../src/stage/active-health.js';
import { conditions } from '../../../src/stage/conditions.js';
import { outlierEjection } from '../../../src/stage/outlier-ejection.js';
import { panic } from '../../../src/stage/panic.js';
import { pushback } from '../../../src/stage/pushback.js';
import { slowStart } from '../../../src/stage/slow-start.js';
import type { StageFactory } from '../../../src/stage/stage.js';
import { stagesOf } from '../../../src/stage/standard-stages.js';
import { subset } from '../../../src/stage/subset.js';
import { zone } from '../../../src/stage/zone.js';
import { settle } from '../../../src/testing/fake-clock.js';
import type { FakeConnection } from '../../../src/testing/fake-transport.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';
import { BalancerFixture } from '../../support/fixtures/balancer-fixture.js';

const pickers: Record<string, PickerFactory> = {
  p2c: p2c(),
  'p2c of 5': p2c({ choices: 5 }),
  roundRobin: roundRobin(),
  random: random(),
  leastLoaded: leastLoaded(),
  shortestExpectedDelay: shortestExpectedDelay(),
  neverQueue: neverQueue(),
  weightedRoundRobin: weightedRoundRobin(),
  hash: hash(),
  'hash, bounded': hash({ maxLoadRatio: 1.1 }),
  'hash by Maglev': hash({ method: 'maglev', maxLoadRatio: 2 }),
};
const loads = { inFlight: inFlight(), peakEwma: peakEwma(), reported: reported() };
const stages: Record<string, () => readonly StageFactory[]> = {
  'no stage': () => [],
  'the standard stages': () => stagesOf(),
  'every stage': () => [
    conditions(),
    subset({ size: 5, client: 'x' }),
    activeHealth(),
    outlierEjection(),
    zone({ zone: 'a' }),
    slowStart(),
    pushback(),
    panic(),
  ],
};
const STEPS = 150;

/** A balancer to which everything happens that can, in random order. */
class Churn {
  readonly fixture: BalancerFixture;
  readonly #rng: Rng;
  readonly #leases: Lease<FakeConnection>[] = [];

  constructor(fixture: BalancerFixture, rng: Rng) {
    this.fixture = fixture;
    this.#rng = rng;
  }

  async step(): Promise<void> {
    const { fixture } = this;
    const what = this.#draw(12);
    if (what === 0) fixture.resolver.update(...Array.from({ length: this.#draw(14) }, () => this.#endpoint()));
    else if (what === 1) await fixture.clock.advanceAsync(this.#draw(this.#draw(3) === 0 ? 40_000 : 400));
    else if (what === 2) this.#connection()?.end(this.#draw(2) === 0 ? new Error('reset') : undefined);
    else if (what === 3) this.#resize();
    else if (what <= 7) await this.#pickSome();
    else if (what <= 10) for (let calls = this.#draw(8); calls > 0; calls--) this.#endOne();
    else this.#waitForOne();
    await settle();
  }

  /** Every call has a place and no place is without a call; no load is what pickers cannot compare. */
  check(): void {
    const { endpoints } = this.fixture.balancer.snapshot();
    const running = endpoints.reduce((sum, endpoint) => sum + endpoint.inFlight, 0);
    expect(running).toBeLessThanOrEqual(this.#leases.length);
    const alive = this.#leases.filter((lease) => callLease(lease).subchannel.state !== 'closed').length;
    expect(running).toBeGreaterThanOrEqual(alive);
    for (const { load, weight } of endpoints) expect([load > 0, weight >= 0]).toEqual([true, true]);
  }

  async end(): Promise<void> {
    while (this.#leases.length > 0) this.#endOne();
    const closed = this.fixture.balancer.close();
    await this.fixture.clock.advanceAsync(60_000);
    await closed;
    expect(this.fixture.clock.timers).toBe(0);
    expect(this.fixture.warnings).toEqual([]);
  }

  #draw(below: number): number {
    return drawIndex(this.#rng, below);
  }

  #one<T>(items: readonly T[]): T {
    return items[this.#draw(items.length)] as T;
  }

  #endpoint(): EndpointInit {
    const leaving = { ready: false, serving: this.#draw(2) === 0, terminating: true };
    return {
      address: `10.0.0.${1 + this.#draw(20)}`,
      port: 80,
      weight: this.#one([1, 1, 1, 0.01, 5, 1_000]),
      zone: this.#one(['a', 'b', 'c']),
      ...(this.#draw(8) === 0 && { conditions: leaving }),
    };
  }

  #connection(): FakeConnection | undefined {
    const { connections } = this.fixture.transport;
    return connections.length === 0 ? undefined : this.#one(connections);
  }

  #resize(): void {
    const connection = this.#connection();
    if (connection !== undefined) connection.capacity = this.#draw(3);
  }

  async #pickSome(): Promise<void> {
    const { balancer } = this.fixture;
    for (let calls = 0; calls < 6; calls++) {
      // The picker of this turn knows who has room.
      await settle();
      const key = this.#draw(3) === 0 ? undefined : `key-${this.#draw(50)}`;
      const free = balancer.snapshot().endpoints.some(hasRoom);
      const lease = balancer.pick({ key });
      if (lease !== undefined) this.#leases.push(lease);
      else expect(free && balancer.snapshot().endpoints.some(hasRoom)).toBe(false);
    }
  }

  #waitForOne(): void {
    const key = this.#draw(2) === 0 ? undefined : `key-${this.#draw(5)}`;
    this.fixture.balancer.acquire({ key, timeoutMs: this.#draw(500) }).then(
      (lease) => this.#leases.push(lease),
      () => {},
    );
  }

  #endOne(): void {
    const [lease] = this.#leases.splice(this.#draw(this.#leases.length), 1);
    lease?.end(this.#outcome(), this.#draw(2) === 0 ? undefined : this.#draw(100));
  }

  #outcome(): Outcome {
    const { success, status, timeout, reset, cancelled, overload } = outcomes;
    const report = { cpuUtilization: 2 * this.#rng.next(), rpsFractional: this.#draw(100), eps: this.#draw(10) };
    const told = { ...success, report };
    return this.#one([success, success, told, status, timeout, reset, cancelled, { ...overload, retryAfterMs: 3_000 }]);
  }
}

function hasRoom({ state, weight, inFlight, capacity }: EndpointSnapshot): boolean {
  return state === 'ready' && weight > 0 && (capacity === -1 || inFlight < capacity);
}

describe.each(Object.keys(pickers))('%s, whatever happens to endpoints and calls', (picker) => {
  const cases = Object.keys(loads).flatMap((load) => Object.keys(stages).map((some) => [load, some] as const));

  it.each(cases)('serves waiting callers and frees every place: over %s, with %s', async (load, some) => {
    const seed = 1 + cases.findIndex(([each, other]) => each === load && other === some);
    const fixture = new BalancerFixture({
      picker: pickers[picker] as PickerFactory,
      load: loads[load as keyof typeof loads],
      stages: (stages[some] as () => readonly StageFactory[])(),
      rng: seededRng(seed),
    });
    const churn = new Churn(fixture, seededRng(100 + seed));
    for (let step = 0; step < STEPS; step++) {
      await churn.step();
      churn.check();
    }
    await churn.end();
  });
});
