import type { Outcome } from '../../../src/endpoint/outcome.js';
import type { Load, LoadFactory } from '../../../src/load/load.js';
import type { Picker, PickerFactory, PickRequest, PickSet, PickTarget } from '../../../src/picker/picker.js';
import { drawIndex, type Rng } from '../../../src/runtime/rng.js';

/** Two distinct servers at random, and the one with the lower load. */
export const twoChoices =
  (): PickerFactory =>
  (set, _previous, { rng }) =>
    new TwoOf(set, rng);

class TwoOf implements Picker {
  readonly #set: PickSet;
  readonly #rng: Rng;

  constructor(set: PickSet, rng: Rng) {
    this.#set = set;
    this.#rng = rng;
  }

  pick({ nowMs }: PickRequest): PickTarget | undefined {
    const { targets } = this.#set;
    if (targets.length < 2) return targets[0];
    const first = drawIndex(this.#rng, targets.length);
    const other = drawIndex(this.#rng, targets.length - 1);
    const a = targets[first] as PickTarget;
    const b = targets[other >= first ? other + 1 : other] as PickTarget;
    return a.cost(nowMs) <= b.cost(nowMs) ? a : b;
  }
}

/** Finagle's default. */
const LEAST_APERTURE = 12;

/**
 * Deterministic aperture: clients and servers on a ring, each client with an arc of it that is as wide as the least aperture, in whole
 * clients' widths. Two servers are drawn by how much of them is in the arc, and compared by load over that share.
 * Source: Finagle, finagle-core loadbalancer/aperture/DeterministicAperture.scala and Ring.scala.
 */
export const aperture =
  (client: number, clients: number): PickerFactory =>
  (set, _previous, { rng }) =>
    new Aperture(set, rng, client, clients);

class Aperture implements Picker {
  readonly #rng: Rng;
  /** Those in the arc, and which part of each is. */
  readonly #targets: readonly PickTarget[];
  readonly #shares: readonly number[];

  constructor({ targets }: PickSet, rng: Rng, client: number, clients: number) {
    this.#rng = rng;
    const servers = targets.length;
    const clientWidth = 1 / clients;
    const least = Math.min(LEAST_APERTURE, servers) / Math.max(1, servers);
    const width = Math.min(1, Math.ceil(least / clientWidth - 1e-9) * clientWidth);
    const from = client * clientWidth;
    const inside: PickTarget[] = [];
    const shares: number[] = [];
    targets.forEach((subchannel, index) => {
      const share = overlap(index / servers, (index + 1) / servers, from, from + width) * servers;
      if (share < 1e-9) return;
      inside.push(subchannel);
      shares.push(share);
    });
    this.#targets = inside;
    this.#shares = shares;
  }

  pick({ nowMs }: PickRequest): PickTarget | undefined {
    const targets = this.#targets;
    if (targets.length < 2) return targets[0];
    const first = this.#draw(-1);
    const second = this.#draw(first);
    const cost = (index: number): number =>
      (targets[index] as PickTarget).cost(nowMs) / (this.#shares[index] as number);
    return targets[cost(first) <= cost(second) ? first : second];
  }

  #draw(without: number): number {
    const shares = this.#shares;
    let left = 0;
    for (let index = 0; index < shares.length; index++) if (index !== without) left += shares[index] as number;
    left *= this.#rng.next();
    let last = without === 0 ? 1 : 0;
    for (let index = 0; index < shares.length; index++) {
      if (index === without) continue;
      last = index;
      left -= shares[index] as number;
      if (left < 0) break;
    }
    return last;
  }
}

/** How much of `[a, b)` is in the arc `[from, to)` of a ring of circumference 1. */
function overlap(a: number, b: number, from: number, to: number): number {
  const part = (shift: number): number => Math.max(0, Math.min(b + shift, to) - Math.max(a + shift, from));
  return part(0) + part(1);
}

/** What is taken for the latency of a server that has not answered yet. */
export interface Unknown {
  /** Linkerd: a latency, in ms. Finagle: undefined, and one that works on its first call is avoided. */
  readonly initialMs?: number;
}

const DECAY_MS = 10_000;
/** Above any latency in ms. */
const PENALTY = 1e9;

/**
 * Peak EWMA: latency times calls. A longer latency counts at once, a shorter one moves an average over 10 s. Failures count like
 * answers.
 * Source: Finagle, finagle-core loadbalancer/PeakEwma.scala; tower, tower/src/load/peak_ewma.rs, as linkerd2-proxy uses it
 * (`DEFAULT_RTT` 30 ms, decay 10 s).
 */
export const plainPeakEwma =
  ({ initialMs }: Unknown): LoadFactory =>
  () =>
    new PlainPeakEwma(initialMs);

class PlainPeakEwma implements Load {
  readonly decays = true;
  #costMs: number;
  #atMs = 0;
  #pending = 0;
  readonly #hasInitial: boolean;

  constructor(initialMs: number | undefined) {
    this.#hasInitial = initialMs !== undefined;
    this.#costMs = initialMs ?? 0;
  }

  start(): void {
    this.#pending++;
  }

  end(startedMs: number, nowMs: number, outcome: Outcome): void {
    this.#pending--;
    if (outcome.kind !== 'not-started') this.#observe(nowMs - startedMs, nowMs);
  }

  value(nowMs: number): number {
    if (this.#costMs === 0 && !this.#hasInitial) return this.#pending === 0 ? 1e-9 : PENALTY + this.#pending;
    // It fades while nothing is heard.
    this.#observe(0, nowMs);
    return Math.max(1e-9, this.#costMs) * (this.#pending + 1);
  }

  #observe(latencyMs: number, nowMs: number): void {
    const kept = Math.exp((this.#atMs - nowMs) / DECAY_MS);
    this.#atMs = nowMs;
    this.#costMs = latencyMs > this.#costMs ? latencyMs : this.#costMs * kept + latencyMs * (1 - kept);
  }
}
