import type { Random32 } from '../runtime/random32.js';
import type { CallCosts } from './call-costs.js';

/**
 * How long an endpoint is at the front of a client's part of the ring, in ms. All clients of a Service must turn alike, whatever version
 * they run: only then do they keep their distance from each other while the endpoints pass under them. A whole turn takes this times the
 * number of endpoints. A third of a second is some fifteen calls of 20 ms: turned faster, a slow Service's clients never learn where they are
 * crowded. It is no round number, because callers often have a round interval.
 */
export const FRONT_MS = 331;
/** By how many endpoints the ring turns in a ms. */
const TURN = 1 / FRONT_MS;
/** The front is computed anew after this time, in ms. A client of thousands of calls a second would spend much on doing it for each. */
const STEP_MS = 1;
/** A client that calls one after the other has the next endpoint at its front after this many calls, if that comes before `FRONT_MS`. */
const FRONT_CALLS = 15;
/** A client that has just started takes turns: this many at each endpoint, `MAX_FIRST_TURNS` in all, for `FIRST_TURNS_MS` at most. */
const FIRST_TURNS = 20;
const MAX_FIRST_TURNS = 200;
const FIRST_TURNS_MS = 5_000;
/** A call after a pause of this long takes its turn, too, in ms: time alone may bring a rare caller to the same endpoint again and again. */
const PAUSE_MS = 2_000;
/** The number of calls in flight is a moving average over this time, in ms. */
const AVERAGE_MS = 3_000;
/** How far the front of a call is drawn from the client's own at most, in endpoints. */
const DITHER = 0.75;
/** A call moves the usual latency and the middle by 1 / (number of calls), but at least by this share of the difference. */
const LEAST_STEP = 0.01;
/** How far a call moves the start, in endpoints: `FIRST_GAIN` / (1 + calls / `FIRST_CALLS`), but at least `LEAST_GAIN`. */
const LEAST_GAIN = 0.05;
const FIRST_GAIN = 0.6;
const FIRST_CALLS = 30;
/** A call counts as at most this much slower or faster than usual; latencies are compared as logarithms. */
const MAX_SURPRISE = 3;
/** Calls further from the middle of the client's part than this, as a multiple of half the part, are not crowded by its neighbors. */
const MAX_OFFSET = 1.5;

// Offsets in the array of a client's numbers. They are in an array, because V8 would put numbers that every call changes on the heap if
// they were fields of an object.
/** The start: the client's place on the ring when its clock is at 0, as an index in the ring with a fraction. */
const START = 0;
/** How many endpoints the ring has; 0 = no call has been picked yet. */
const SIZE = 1;
/** Index into a client's numbers: the front for the next call, as an index in the ring with a fraction. */
export const FRONT = 2;
/** The calls in flight now. */
const RUNNING = 3;
/** Index into a client's numbers: the moving average of its calls in flight. */
export const AVERAGE = 4;
/** How many endpoints further the front is than time alone has brought it. */
const AHEAD = 5;
/** When `AVERAGE` and `AHEAD` were computed, and where time alone had brought the front by then. */
const COMPUTED_AT = 6;
const TURNED = 7;
const TURNS = 8;
/** Until when a new client takes turns. */
const TURNS_END = 9;
/** How many calls taught the client something, and how far the next one moves the means and the start, as long as these change. */
const LEARNT = 10;
const STEP = 11;
const GAIN = 12;
/** The mean logarithm of the latency of these calls, and their mean distance from the start. */
const USUAL = 13;
const MIDDLE = 14;
/** Index into a client's numbers: the logarithm of a call's latency, without what is its endpoint's own; `learn` reads it. */
export const LATENCY = 15;
const FIELDS = 16;
/** Random integers are drawn from this range, because V8 would put fractions on the heap. */
const RANGE = 2 ** 20;

/**
 * Where a client's part of the ring starts. All clients turn the ring at the same rate; each has a start of its own, random at first. The
 * front of each call is drawn a little around it. Where calls at the front of the part are slower than usual, other clients crowd there, so
 * the start moves on; where those at the back are slower, it moves back. So clients spread over the ring without knowing of each other.
 *
 * Source: stochastic approximation (Kiefer, Wolfowitz, Stochastic Estimation of the Maximum of a Regression Function, 1952).
 */
export class RingStart {
  readonly state: Float64Array = new Float64Array(FIELDS);
  /** Computes the costs of calls on the endpoints of the ring. */
  readonly costs: CallCosts;
  /** One bit for each endpoint, by its index in the ring, 32 in a number: set when a call on it ends. The picker clears them. */
  mayBeIdle: Int32Array = new Int32Array(1);

  constructor(costs: CallCosts) {
    this.costs = costs;
  }

  /** How long a whole turn of the ring takes, in ms. */
  get periodMs(): number {
    return (this.state[SIZE] as number) * FRONT_MS;
  }

  /** A call started. */
  started(): void {
    (this.state[RUNNING] as number)++;
  }

  /** A call ended. @param index The index of its endpoint in the ring. */
  ended(index: number): void {
    (this.state[RUNNING] as number)--;
    (this.mayBeIdle[index >> 5] as number) |= 1 << index;
  }

  /**
   * Computes `FRONT` for a call that is about to start.
   *
   * @param size How many endpoints the ring has.
   */
  advance(nowMs: number, size: number, random: Random32): void {
    const { state } = this;
    if (size !== state[SIZE]) this.#resize(nowMs, size, random);
    const isAlone = state[RUNNING] === 0;
    const passedMs = nowMs - (state[COMPUTED_AT] as number);
    if (!(passedMs >= 0 && passedMs < STEP_MS)) this.#compute(nowMs);
    if (this.#isNew(nowMs) || (isAlone && passedMs > PAUSE_MS)) {
      state[FRONT] = wrapped(Math.floor(state[START] as number) + (state[TURNS] as number)++, size);
      return;
    }
    if (isAlone) state[AHEAD] = (state[AHEAD] as number) + 1 / FRONT_CALLS;
    const dither = (random.index(RANGE) / RANGE - 0.5) * 2 * DITHER;
    state[FRONT] = wrapped((state[TURNED] as number) + (state[AHEAD] as number) + dither, size);
  }

  #compute(nowMs: number): void {
    const { state } = this;
    const size = state[SIZE] as number;
    const average = state[AVERAGE] as number;
    // The clock may have been set back.
    const passedMs = Math.max(0, nowMs - (state[COMPUTED_AT] as number));
    state[AVERAGE] = average + (((state[RUNNING] as number) - average) * passedMs) / (AVERAGE_MS + passedMs);
    state[AHEAD] = Math.max(0, (state[AHEAD] as number) - passedMs * TURN) % size;
    state[TURNED] = wrapped((state[START] as number) + nowMs * TURN, size);
    state[COMPUTED_AT] = nowMs;
  }

  /** Learns from a successful call whose `LATENCY` was written before. @param index The index of its endpoint in the ring. */
  learn(index: number, startedMs: number): void {
    const { state } = this;
    const size = state[SIZE] as number;
    // Turns, and calls one after the other, are not where the client's part of the ring is.
    if (size === 0 || this.#isNew(startedMs) || (state[AHEAD] as number) > 0) return;
    let offset = wrapped(index + 0.5 - (state[START] as number) - startedMs * TURN, size);
    if (offset > size / 2) offset -= size;
    if ((state[GAIN] as number) !== LEAST_GAIN) {
      const learnt = ++(state[LEARNT] as number);
      state[STEP] = Math.max(LEAST_STEP, 1 / learnt);
      state[GAIN] = Math.max(LEAST_GAIN, FIRST_GAIN / (1 + learnt / FIRST_CALLS));
    }
    const step = state[STEP] as number;
    const latency = state[LATENCY] as number;
    state[USUAL] = (state[USUAL] as number) + (latency - (state[USUAL] as number)) * step;
    state[MIDDLE] = (state[MIDDLE] as number) + (offset - (state[MIDDLE] as number)) * step;
    const half = Math.max(1, ((state[AVERAGE] as number) + 1) / 2 + DITHER);
    const distance = (offset - (state[MIDDLE] as number)) / half;
    if (!(Math.abs(distance) <= MAX_OFFSET)) return;
    const shift = (state[GAIN] as number) * bounded(latency - (state[USUAL] as number), MAX_SURPRISE) * distance;
    state[START] = wrapped((state[START] as number) - shift, size);
  }

  #isNew(nowMs: number): boolean {
    const { state } = this;
    const turns = Math.min(FIRST_TURNS * (state[SIZE] as number), MAX_FIRST_TURNS);
    return (state[TURNS] as number) < turns && nowMs < (state[TURNS_END] as number);
  }

  /** The front stays at the same share of the ring: if all clients jumped when the set changes, what they learned would be lost. */
  #resize(nowMs: number, size: number, random: Random32): void {
    const { state } = this;
    const before = state[SIZE] as number;
    state[SIZE] = size;
    if (before === 0) {
      state[START] = random.next() * size;
      state[TURNS_END] = nowMs + FIRST_TURNS_MS;
    } else {
      const share = wrapped((state[START] as number) + nowMs * TURN, before) / before;
      state[START] = wrapped(share * size - nowMs * TURN, size);
    }
    this.#compute(nowMs);
  }
}

const wrapped = (value: number, size: number): number => value - Math.floor(value / size) * size;
const bounded = (value: number, most: number): number => Math.max(-most, Math.min(most, value));
