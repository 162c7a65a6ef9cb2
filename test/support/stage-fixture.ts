import { createEndpoint, type Endpoint, type EndpointInit } from '../../src/endpoint/endpoint.js';
import { type EndpointEntry, EndpointSet } from '../../src/endpoint/endpoint-set.js';
import type { Outcome } from '../../src/endpoint/outcome.js';
import { applyStages, type Stage, type StageContext, type StageFactory, type Tracker } from '../../src/stage/stage.js';
import { FakeClock } from '../../src/testing/fake-clock.js';
import { seededRng } from '../../src/testing/seeded-rng.js';

type TestInit = string | (Omit<EndpointInit, 'port'> & { readonly port?: number });

/** Runs stages like a balancer, but without one: trackers per endpoint, and `apply` whenever a stage asks for it. */
export class StageFixture {
  readonly clock: FakeClock = new FakeClock();
  readonly stages: readonly Stage[];
  /** Names and reasons of observer events. */
  readonly events: string[] = [];
  /** How often the stages were run. */
  runs = 0;
  /** The result of `probe` by address; unset = alive. */
  readonly probes: Map<string, () => Promise<void>> = new Map();
  readonly #trackers = new Map<string, { endpoint: Endpoint; list: Tracker[] }>();
  #endpoints: readonly Endpoint[] = [];
  #version = 0;
  #dirty = false;
  #inTurn = false;
  #result: EndpointSet = EndpointSet.empty;

  constructor(factories: readonly StageFactory[], seed = 1) {
    const context: StageContext = {
      clock: this.clock,
      rng: seededRng(seed),
      observer: {
        ejected: ({ endpoint, reason }) => this.events.push(`ejected ${endpoint.address}: ${reason}`),
        restored: ({ endpoint, reason }) => this.events.push(`restored ${endpoint.address}: ${reason}`),
        panicChanged: ({ panicking, suspects, total }) =>
          this.events.push(`panic ${panicking ? 'on' : 'off'} ${suspects}/${total}`),
        warned: ({ message }) => this.events.push(`warned: ${message}`),
      },
      invalidate: () => {
        if (this.#dirty) return;
        this.#dirty = true;
        this.clock.defer(() => this.#run());
      },
      probe: (endpoint, _signal) => this.probes.get(endpoint.address)?.() ?? Promise.resolve(),
    };
    this.stages = factories.map((factory) => factory(context));
  }

  /** Publishes a set; new endpoints are connected at once unless `connect` is false. */
  set(inits: readonly TestInit[], connect = true): void {
    this.#endpoints = inits.map((init) =>
      createEndpoint(typeof init === 'string' ? { address: init, port: 80 } : { port: 80, ...init }),
    );
    this.#version++;
    this.#run();
    for (const { endpoint } of this.#result.entries) {
      if (this.#trackers.has(endpoint.key)) continue;
      const list = this.stages.flatMap((stage) => stage.track?.(endpoint) ?? []);
      this.#trackers.set(endpoint.key, { endpoint, list });
      if (connect) for (const tracker of list) tracker.connected?.();
    }
    const present = new Set(this.#result.entries.map(({ endpoint }) => endpoint.key));
    for (const [key, { list }] of this.#trackers) {
      if (present.has(key)) continue;
      this.#trackers.delete(key);
      for (const tracker of list) tracker.closed?.();
    }
    this.clock.flush();
  }

  /** The set after all stages. */
  get result(): EndpointSet {
    this.clock.flush();
    return this.#result;
  }

  /** One entry of it. */
  entry(address: string): EndpointEntry | undefined {
    return this.result.entries.find(({ endpoint }) => endpoint.address === address);
  }

  /** Addresses that can be picked. */
  get usable(): string[] {
    return this.result.entries.filter(({ weight }) => weight > 0).map(({ endpoint }) => endpoint.address);
  }

  /** Calls on `address` end. */
  completed(address: string, outcome: Outcome, times = 1, latencyMs = 0, unanswered = 1): void {
    for (let call = 0; call < times; call++) {
      this.#each(address, (tracker) => tracker.completed?.(outcome, latencyMs, unanswered, 0));
    }
  }

  /** Calls on `address` end, without telling trackers about successes they ignore. Returns how many those were. */
  completedUnlessIgnored(address: string, all: readonly Outcome[]): number {
    let ignored = 0;
    const unheard = new Map<Tracker, number>();
    for (const outcome of all) {
      this.#each(address, (tracker) => {
        const count = unheard.get(tracker) ?? 0;
        const isIgnored = outcome.kind === 'success' && tracker.ignoresSuccess === true;
        if (isIgnored) ignored++;
        else tracker.completed?.(outcome, 0, 1, count);
        unheard.set(tracker, isIgnored ? count + 1 : 0);
      });
    }
    return ignored;
  }

  connected(address: string): void {
    this.#each(address, (tracker) => tracker.connected?.());
  }

  probed(address: string): void {
    this.#each(address, (tracker) => tracker.probed?.());
  }

  disconnected(address: string, error?: Error): void {
    this.#each(address, (tracker) => tracker.disconnected?.(error));
  }

  /** Keeps the turn from ending while `fn` runs. */
  inOneTurn(fn: () => void): void {
    this.#inTurn = true;
    fn();
    this.#inTurn = false;
    this.clock.flush();
  }

  close(): void {
    for (const stage of this.stages) stage.close?.();
  }

  #each(address: string, fn: (tracker: Tracker) => void): void {
    for (const { endpoint, list } of this.#trackers.values()) if (endpoint.address === address) list.forEach(fn);
    if (!this.#inTurn) this.clock.flush();
  }

  #run(): void {
    this.#dirty = false;
    this.runs++;
    this.#result = applyStages(this.stages, EndpointSet.of(this.#version, this.#endpoints));
  }
}

/** `10.0.0.1` … `10.0.0.n`; beyond 255 in the next network. */
export function addresses(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `10.0.${(index + 1) >> 8}.${(index + 1) & 255}`);
}
