import { type Balancer, createBalancer } from '../../../src/balancer/balancer.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { relativeLatency } from '../../../src/load/relative-latency.js';
import type { PickerFactory } from '../../../src/picker/picker.js';
import { drawIndex, type Rng } from '../../../src/runtime/rng.js';
import { exactStages } from '../../../src/stage/standard-stages.js';
import { FakeResolver } from '../../../src/testing/fake-resolver.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';
import { Tally } from './tally.js';
import { VirtualClock } from './virtual-clock.js';

export interface LlmOptions {
  readonly seed: number;
  readonly picker: PickerFactory;
  /** Requests carry the session as their key. */
  readonly keyed: boolean;
  /** Pods say how many requests they have in flight, as `evenkeel/server` does. */
  readonly reports: boolean;
  readonly callsPerSecond: number;
  readonly pods?: number;
  /** Balancers that know nothing of one another. @defaultValue 1 */
  readonly clients?: number;
  readonly sessions?: number;
  /** Session number n is asked for in proportion to 1 / n^skew. @defaultValue 0: all alike */
  readonly skew?: number;
  readonly lengthMs?: number;
}

/** Sessions a pod keeps what it computed for. */
const CACHED = 60;
/** Time until the first token: the prompt is computed, or only its end. One prompt after the other. */
const MISS_MS = 800;
const HIT_MS = 100;
/** Then tokens follow, to all requests at the same time. */
const DECODE_MS = 2_000;

/** A server of a language model with a prefix cache. */
class LlmPod {
  readonly address: string;
  inFlight = 0;
  hits = 0;
  prompts = 0;
  readonly #clock: VirtualClock;
  /** The latest last. */
  readonly #sessions = new Set<string>();
  readonly #waiting: { session: string; answered: () => void; ended: () => void }[] = [];
  #isBusy = false;

  constructor(address: string, clock: VirtualClock) {
    this.address = address;
    this.#clock = clock;
  }

  take(session: string, answered: () => void, ended: () => void): void {
    this.inFlight++;
    this.#waiting.push({ session, answered, ended });
    if (!this.#isBusy) this.#begin();
  }

  #begin(): void {
    const next = this.#waiting.shift();
    this.#isBusy = next !== undefined;
    if (next === undefined) return;
    // Decided when it is its turn: the one before may be of the same session.
    const isHit = this.#sessions.delete(next.session);
    this.#sessions.add(next.session);
    if (this.#sessions.size > CACHED) this.#sessions.delete(this.#sessions.values().next().value as string);
    this.prompts++;
    if (isHit) this.hits++;
    const doneMs = this.#clock.now() + (isHit ? HIT_MS : MISS_MS);
    this.#clock.at(doneMs, () => {
      next.answered();
      this.#clock.at(doneMs + DECODE_MS, () => {
        this.inFlight--;
        next.ended();
      });
      this.#begin();
    });
  }
}

export interface LlmResult {
  readonly hitRatio: number;
  /** Times to the first token. */
  readonly firstToken: Tally;
}

/** Sessions that ask again and again, at random. */
export async function playLlm(options: LlmOptions): Promise<LlmResult> {
  const { seed, pods: count = 8, clients = 1, sessions = 500, skew = 0, lengthMs = 600_000 } = options;
  const clock = new VirtualClock();
  const stream = (purpose: number): Rng => seededRng(Math.imul(seed, 0x9e3779b1) ^ Math.imul(purpose + 1, 0x85ebca6b));
  const pods = Array.from({ length: count }, (_, index) => new LlmPod(`10.0.0.${index + 1}`, clock));
  const byAddress = new Map(pods.map((pod) => [pod.address, pod]));
  const resolver = new FakeResolver();
  const balancers: Balancer<LlmPod>[] = Array.from({ length: clients }, (_, index) =>
    createBalancer<LlmPod>({
      resolver,
      transport: {
        connect: async ({ address }) => ({
          handle: byAddress.get(address) as LlmPod,
          capacity: Number.POSITIVE_INFINITY,
          closed: new Promise(() => {}),
          close: async () => {},
        }),
      },
      picker: options.picker,
      load: relativeLatency(),
      stages: exactStages([]),
      pool: { maxConnectionAgeMs: Number.POSITIVE_INFINITY },
      clock,
      rng: stream(500 + index),
    }),
  );
  resolver.update(...pods.map(({ address }) => ({ address, port: 80 })));
  clock.disturb();
  await clock.run(1);

  const draw = stream(1);
  const shares = Array.from({ length: sessions }, (_, index) => 1 / (index + 1) ** skew);
  const total = shares.reduce((sum, share) => sum + share, 0);
  const session = (): string => {
    let left = draw.next() * total;
    let index = 0;
    for (; index < sessions - 1 && left >= (shares[index] as number); index++) left -= shares[index] as number;
    return `session-${index}`;
  };
  let tally = new Tally(0);
  const call = (): void => {
    const key = session();
    const lease = (balancers[drawIndex(draw, clients)] as Balancer<LlmPod>).pick(options.keyed ? { key } : undefined);
    const beganMs = clock.now();
    const own = tally;
    if (lease === undefined) {
      own.refused(beganMs);
      return;
    }
    lease.handle.take(
      key,
      () => {
        own.ended(lease.handle.address, beganMs, clock.now(), true);
        lease.progressed();
        if (options.reports) lease.reported({ namedMetrics: { evenkeel_in_flight: lease.handle.inFlight } });
      },
      () => lease.end(outcomes.success),
    );
    own.began(lease.handle.address);
  };
  const next = (): void => {
    clock.at(clock.now() - (Math.log(1 - draw.next()) * 1_000) / options.callsPerSecond, () => {
      call();
      next();
    });
  };
  next();
  // Until caches are full.
  await clock.run(clock.now() + lengthMs / 4);
  tally = new Tally(clock.now());
  for (const pod of pods) {
    pod.hits = 0;
    pod.prompts = 0;
  }
  await clock.run(clock.now() + lengthMs);
  const hits = pods.reduce((sum, pod) => sum + pod.hits, 0);
  const prompts = pods.reduce((sum, pod) => sum + pod.prompts, 0);
  return { hitRatio: hits / prompts, firstToken: tally };
}
