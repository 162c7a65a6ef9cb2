import type { Picker, PickerFactory, PickRequest, PickSet } from '../../../src/picker/picker.js';
import type { Subchannel } from '../../../src/pool/subchannel.js';
import { drawIndex, type Rng } from '../../../src/runtime/rng.js';
import type { ProbedConnection } from './world.js';

/** Named metrics of a simulated server's answer to a probe. */
export const prequalMetrics: { readonly inFlight: string; readonly latencyMs: string } = Object.freeze({
  inFlight: 'prequal_in_flight',
  latencyMs: 'prequal_latency_ms',
});

const PROBES_PER_CALL = 3;
const REMOVED_PER_CALL = 1;
const POOL_SIZE = 16;
const LONGEST_AGE_MS = 1_000;
/** From this quantile of what probes said of requests in flight on, a server is hot: with 0 all are, as in the paper. */
const HOT_QUANTILE = 2 ** (-1 / 4);
/** How fast unused probes must come in beyond those used: δ of the paper. */
const SURPLUS = 1;
/** Below this many probes the choice is at random. */
const FEWEST = 2;
/** How many of the last probes make up the distribution of requests in flight. */
const REMEMBERED = 128;
const MAX_IN_FLIGHT = 10_000;

interface Probe {
  readonly subchannel: Subchannel<unknown>;
  inFlight: number;
  readonly latencyMs: number;
  readonly atMs: number;
  uses: number;
}

/**
 * Prequal in its asynchronous form, as in the paper: each call sends three probes to random servers, whose answers are kept in a
 * pool of 16. A call goes to the cold probe (its requests in flight below a quantile of what is usual) of the least latency, or if
 * all are hot to the one with the fewest requests. A used probe counts one request more, and is kept for a limited number of
 * uses; with each call the oldest and the worst are removed in turn.
 * Source: Wydrowski, Kleinberg, Rumble, Archer: Load is not what you should balance: Introducing Prequal, NSDI 2024, section 4.
 */
export const prequal = (): PickerFactory => (set, previous, context) =>
  new PrequalPicker(set as PickSet<Subchannel<unknown>>, previous, context);

class PrequalPicker implements Picker<Subchannel<unknown>> {
  readonly #set: PickSet<Subchannel<unknown>>;
  readonly #rng: Rng;
  #pool: Probe[] = [];
  /** Requests in flight as probes said, in a ring, and how many said each number. */
  readonly #seen: number[] = [];
  readonly #said = new Int32Array(MAX_IN_FLIGHT + 1);
  #next = 0;
  #removesWorst = false;
  #nowMs = 0;

  constructor(set: PickSet<Subchannel<unknown>>, previous: Picker | undefined, { rng }: { readonly rng: Rng }) {
    this.#set = set;
    this.#rng = rng;
    if (previous instanceof PrequalPicker) {
      this.#pool = previous.#pool;
      this.#seen = previous.#seen;
      this.#said = previous.#said;
      this.#next = previous.#next;
    }
  }

  pick({ nowMs }: PickRequest): Subchannel<unknown> | undefined {
    this.#nowMs = nowMs;
    const { targets } = this.#set;
    if (targets.length === 0) return undefined;
    this.#pool = this.#pool.filter(
      ({ atMs, subchannel }) => nowMs - atMs <= LONGEST_AGE_MS && targets.includes(subchannel),
    );
    const picked = this.#choose() ?? (targets[drawIndex(this.#rng, targets.length)] as Subchannel<unknown>);
    for (let removed = 0; removed < REMOVED_PER_CALL; removed++) this.#remove();
    this.#probe();
    return picked;
  }

  #choose(): Subchannel<unknown> | undefined {
    const pool = this.#pool;
    if (pool.length < FEWEST) return undefined;
    const hotFrom = this.#quantile();
    let best = pool[0] as Probe;
    for (const probe of pool) if (isBetter(probe, best, hotFrom)) best = probe;
    best.inFlight++;
    if (--best.uses <= 0) pool.splice(pool.indexOf(best), 1);
    return best.subchannel;
  }

  #remove(): void {
    const pool = this.#pool;
    if (pool.length === 0) return;
    let index = 0;
    if (this.#removesWorst) {
      const hotFrom = this.#quantile();
      for (let at = 1; at < pool.length; at++) {
        if (isBetter(pool[index] as Probe, pool[at] as Probe, hotFrom)) index = at;
      }
    }
    // Otherwise the oldest, which is the first.
    pool.splice(index, 1);
    this.#removesWorst = !this.#removesWorst;
  }

  #probe(): void {
    const { targets } = this.#set;
    const drawn = new Set<Subchannel<unknown>>();
    const wanted = Math.min(PROBES_PER_CALL, targets.length);
    while (drawn.size < wanted) drawn.add(targets[drawIndex(this.#rng, targets.length)] as Subchannel<unknown>);
    for (const subchannel of drawn) {
      const connection = subchannel.connection as ProbedConnection<unknown> | undefined;
      void connection?.probe().then((report) => {
        const { namedMetrics = {} } = report ?? {};
        const inFlight = namedMetrics[prequalMetrics.inFlight];
        if (inFlight !== undefined) this.#learn(subchannel, inFlight, namedMetrics[prequalMetrics.latencyMs] ?? 0);
      });
    }
  }

  #learn(subchannel: Subchannel<unknown>, inFlight: number, latencyMs: number): void {
    const forgotten = this.#seen[this.#next];
    if (forgotten !== undefined) this.#said[forgotten] = (this.#said[forgotten] as number) - 1;
    const counted = Math.min(inFlight, MAX_IN_FLIGHT);
    this.#seen[this.#next] = counted;
    this.#said[counted] = (this.#said[counted] as number) + 1;
    this.#next = (this.#next + 1) % REMEMBERED;
    const pool = this.#pool;
    if (pool.length === POOL_SIZE) pool.shift();
    pool.push({ subchannel, inFlight, latencyMs, atMs: this.#nowMs, uses: this.#uses() });
  }

  /** How often a probe may be used, so that the pool stays full: rounded up or down at random to be right on average. */
  #uses(): number {
    const servers = this.#set.targets.length;
    const gained = (1 - Math.min(1, POOL_SIZE / servers)) * PROBES_PER_CALL - REMOVED_PER_CALL;
    const uses = gained <= 0 ? 1 : Math.max(1, (1 + SURPLUS) / gained);
    const whole = Math.floor(uses);
    return whole + (this.#rng.next() < uses - whole ? 1 : 0);
  }

  #quantile(): number {
    let left = Math.floor(this.#seen.length * HOT_QUANTILE);
    for (let inFlight = 0; inFlight <= MAX_IN_FLIGHT; inFlight++) {
      left -= this.#said[inFlight] as number;
      if (left < 0) return inFlight;
    }
    return MAX_IN_FLIGHT;
  }
}

/** Cold before hot; of cold ones the quicker, of hot ones the one with fewer requests. */
function isBetter(a: Probe, b: Probe, hotFrom: number): boolean {
  const aIsHot = a.inFlight >= hotFrom;
  if (aIsHot !== b.inFlight >= hotFrom) return !aIsHot;
  return aIsHot ? a.inFlight < b.inFlight : a.latencyMs < b.latencyMs;
}
