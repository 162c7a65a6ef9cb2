/**
 * This many ms are added to all latencies before they are compared, because among very short latencies differences mean little.
 */
const FLOOR_MS = 5;
/**
 * The latency of a single call counts as at most this far from the usual latency (farther with a larger tolerance), as a logarithm: four
 * times as long or as short.
 */
const MAX_DISTANCE = Math.log(4);
/** The usual latency moves towards a window's latency by this share of the difference; by `FOLLOWS_SLOW` if the window was too slow. */
const FOLLOWS = 0.02;
const FOLLOWS_SLOW = 0.001;
/** For this many windows after a start, the usual latency is still being learned, and no call counts as too slow. */
const LEARNS = 6;
/**
 * After the usual latency was raised, it does not fall for `HOLD_MS`; the time doubles with each further raise, up to `MAX_HOLD_MS`.
 * In ms.
 */
const HOLD_MS = 60_000;
const MAX_HOLD_MS = 960_000;
/** A response rarely takes less than this share of the usual latency. */
const LEAST = 0.5;

/**
 * The latency that the calls to a Service usually have, learned from windows of calls. Latencies are compared by their logarithms, so
 * "slower by" is the logarithm of a ratio. Source: Huber's M-estimator.
 */
export class UsualLatency {
  /** How far from the usual latency a single latency may count, as a logarithm. */
  readonly most: number;
  /** The logarithm of the usual latency in ms; 0 while it is unknown. */
  #log = 0;
  /** How many windows it was learned from. */
  #windows = 0;
  // What it was before it was last raised, until when it must not fall, and for how long it may not after the next raise.
  #raisedFrom = 0;
  #heldUntilMs = 0;
  #holdMs = 0;

  /** @param tolerated By how much slower than usual calls may be, as a logarithm. */
  constructor(tolerated: number) {
    this.most = Math.max(MAX_DISTANCE, 2 * tolerated);
  }

  /** Whether anything was learned yet. */
  get isKnown(): boolean {
    return this.#windows > 0;
  }

  /** Whether enough was learned to call a window slow. */
  get isLearned(): boolean {
    return this.#windows > LEARNS;
  }

  /** The shortest time, in ms, that a response is likely to take; 0 while nothing is known. */
  get leastMs(): number {
    return this.isKnown ? LEAST * (Math.exp(this.#log) - FLOOR_MS) : 0;
  }

  /** Whether this is less than a call usually takes. */
  isLess(latencyMs: number): boolean {
    return Math.log(latencyMs + FLOOR_MS) <= this.#log;
  }

  /** By how much a latency is slower than usual, at most by `most` either way; while nothing is known, the logarithm of the latency. */
  slowerBy(latencyMs: number): number {
    const slower = Math.log(latencyMs + FLOOR_MS) - this.#log;
    return this.isKnown ? Math.max(-this.most, Math.min(this.most, slower)) : slower;
  }

  /** How long calls take, in ms, that are slower by this much. */
  slowedMs(slower = 0): number {
    return Math.exp(this.#log + slower);
  }

  /** Begins with the first window, whose latency has this logarithm. */
  begin(log: number): void {
    this.#log = log;
    this.#windows = 1;
  }

  /** Counts a window that `learn` will get. */
  windowEnded(): void {
    this.#windows++;
  }

  /** Learns from a window. @param slower How much slower than usual its calls were. @param mayRise Whether the usual latency may rise. */
  learn(slower: number, isSlow: boolean, mayRise: boolean, nowMs: number): void {
    const follows = isSlow ? FOLLOWS_SLOW : Math.max(FOLLOWS, 1 / this.#windows);
    if (slower > 0 ? mayRise : nowMs >= this.#heldUntilMs) this.#log += follows * slower;
  }

  /** Calls are slower by this much for good: raises the usual latency, which is then learned anew. */
  raise(slower: number, nowMs: number): void {
    this.#raisedFrom = this.#log;
    this.#log += slower;
    this.#windows = 1;
    this.#holdMs = Math.min(MAX_HOLD_MS, Math.max(HOLD_MS, 2 * this.#holdMs));
    this.#heldUntilMs = nowMs + this.#holdMs;
  }

  /** By how much calls are slower than before the last raise; 0 if there was none, or none for long. */
  slowerThanBeforeRaise(slower: number, nowMs: number): number {
    return nowMs < this.#heldUntilMs ? this.#log + slower - this.#raisedFrom : 0;
  }

  /** Takes the last raise back. */
  undoRaise(): void {
    this.#log = this.#raisedFrom;
    this.#windows = LEARNS;
    this.#heldUntilMs = 0;
  }
}
