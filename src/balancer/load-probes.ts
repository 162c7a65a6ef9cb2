import type { Subchannel } from '../pool/subchannel.js';
import type { Connection } from '../pool/transport.js';
import type { Clock } from '../runtime/clock.js';
import { Random32 } from '../runtime/random32.js';
import type { Rng } from '../runtime/rng.js';
import { SharedTimers } from '../runtime/shared-timers.js';
import type { ResolvedProbeOptions } from './balancer-options.js';
import type { Recording } from './recording.js';

/** What `LoadProbes` needs from its balancer. */
export interface LoadProbesParts<C> {
  readonly clock: Clock;
  readonly rng: Rng;
  readonly options: ResolvedProbeOptions;
  /** The endpoints that the picker compares by load. */
  readonly compared: () => readonly Subchannel<C>[];
  /** The endpoints whose answers arrived last. The owner empties it. */
  readonly informed: Subchannel<C>[];
  readonly recording?: Recording | undefined;
}

/** The length of `informed`: a pick compares these too, besides those it draws. */
const INFORMED = 16;
/** Maximum number of concurrent probes. */
const MAX_RUNNING = 256;
/** An endpoint that did not answer in time is probed again after this pause, which doubles each time, in ms. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 300_000;
/** While no endpoint has ever answered with a report, a failed probe is followed by this pause for all, which doubles each time, in ms. */
const FIRST_SILENCE_MS = 60_000;
const LONGEST_SILENCE_MS = 3_600_000;

/** The state of probing over one connection. */
interface ProbeState {
  isRunning: boolean;
  notBeforeMs: number;
  pauseMs: number;
}

/**
 * Probes random endpoints for their load reports, a few per call, while the load would benefit: when one client's calls are too rare
 * to know how busy the servers are. Runs after the call has started, over open connections. An endpoint that does not answer is left alone
 * for a while; that does not count as a failure.
 */
export class LoadProbes<C> {
  readonly #parts: LoadProbesParts<C>;
  readonly #timers: SharedTimers;
  readonly #draws: ProbeDraws<C>;
  /** Probes sent since creation. */
  sent = 0;
  /** Endpoints to probe at the end of this turn, unless the picker's set has changed by then. */
  #dueOf: readonly Subchannel<C>[] = [];
  #due: Subchannel<C>[] = [];
  #spare: Subchannel<C>[] = [];
  /** Aborts the probes under way. */
  readonly #running = new Set<AbortController>();
  #next = 0;
  /** By connection, so that a new pod at the address starts afresh. */
  readonly #states = new WeakMap<Connection<C>, ProbeState>();
  /** Whether any endpoint has ever answered with a report. Until then there is one probe at a time. */
  #isKnown = false;
  #silentUntilMs = Number.NEGATIVE_INFINITY;
  #silenceMs = FIRST_SILENCE_MS;
  #closed = false;
  readonly #askDue = (): void => {
    const due = this.#due;
    this.#due = this.#spare;
    if (this.#parts.compared() === this.#dueOf) for (const subchannel of due) this.#probe(subchannel);
    due.length = 0;
    this.#spare = due;
  };

  readonly #drawn = (index: number): void => {
    const candidates = this.#parts.compared();
    if (this.#due.push(candidates[index] as Subchannel<C>) === 1) this.#parts.clock.defer(this.#askDue);
    this.#dueOf = candidates;
  };

  constructor(parts: LoadProbesParts<C>) {
    this.#parts = parts;
    this.#timers = new SharedTimers(parts.clock);
    this.#draws = new ProbeDraws(parts.rng, parts.options.perCall);
  }

  /** A call was given to an endpoint. On the path of every call whose load uses reports. True if endpoints were drawn. */
  called(nowMs: number): boolean {
    if (nowMs < this.#silentUntilMs || this.#closed) return false;
    const candidates = this.#parts.compared();
    // A single endpoint gets every call, whatever its load.
    if (candidates.length < 2) return false;
    this.#draws.draw(candidates, nowMs, this.#drawn);
    return true;
  }

  /** Starts afresh, with a new random state. */
  refresh(): void {
    this.#draws.refresh();
  }

  /** Aborts running probes and sends no more. */
  close(): void {
    this.#closed = true;
    this.#due.length = 0;
    this.#timers.close();
    for (const tooLate of this.#running) tooLate.abort();
  }

  #probe(subchannel: Subchannel<C>): void {
    const { connection } = subchannel;
    if (connection?.askForReport === undefined || this.#closed) return;
    // A call that comes meanwhile must not wait behind a probe.
    if (subchannel.inFlight + 1 >= subchannel.capacity) return;
    const nowMs = this.#parts.clock.now();
    if (this.#running.size >= (this.#isKnown ? MAX_RUNNING : 1) || nowMs < this.#silentUntilMs) return;
    let state = this.#states.get(connection);
    if (state === undefined) {
      state = { isRunning: false, notBeforeMs: Number.NEGATIVE_INFINITY, pauseMs: FIRST_PAUSE_MS };
      this.#states.set(connection, state);
    }
    if (state.isRunning || nowMs < state.notBeforeMs) return;
    state.isRunning = true;
    void this.#send(subchannel, connection, state);
  }

  async #send(subchannel: Subchannel<C>, connection: Connection<C>, state: ProbeState): Promise<void> {
    const { clock, options, compared } = this.#parts;
    const candidates = compared();
    const tooLate = new AbortController();
    this.#running.add(tooLate);
    this.sent++;
    const timer = this.#timers.start(options.timeoutMs, { timedOut: () => tooLate.abort() });
    try {
      const report = await connection.askForReport?.(tooLate.signal);
      if (report === undefined) this.#unanswered(state, Number.POSITIVE_INFINITY);
      else if (report !== 'busy') {
        this.#isKnown = true;
        state.pauseMs = FIRST_PAUSE_MS;
        if (subchannel.connection === connection) {
          subchannel.reported(report, clock.now());
          if (this.#parts.compared() === candidates) this.#informed(subchannel);
        }
      }
    } catch {
      this.#unanswered(state, state.pauseMs);
    } finally {
      timer.cancel();
      this.#running.delete(tooLate);
      state.isRunning = false;
    }
  }

  #informed(subchannel: Subchannel<C>): void {
    const { informed } = this.#parts;
    const isFull = informed.length >= INFORMED;
    const place = isFull ? this.#next : informed.length;
    informed[place] = subchannel;
    if (isFull) this.#next = (place + 1) % INFORMED;
    this.#parts.recording?.informed(subchannel, place);
  }

  /** @param pauseMs Infinity: it answered, and knows no reports. */
  #unanswered(state: ProbeState, pauseMs: number): void {
    const nowMs = this.#parts.clock.now();
    state.notBeforeMs = nowMs + pauseMs;
    state.pauseMs = Math.min(state.pauseMs * 2, LONGEST_PAUSE_MS);
    if (this.#isKnown) return;
    this.#silentUntilMs = nowMs + this.#silenceMs;
    this.#silenceMs = Math.min(this.#silenceMs * 2, LONGEST_SILENCE_MS);
  }
}

/** Draws the endpoints to probe: a few random ones per call, if their load would benefit. */
export class ProbeDraws<C> {
  readonly #rng: Rng;
  readonly #perCall: number;
  /** Made when the first endpoint is drawn. */
  #random: Random32 | undefined;
  /** Fractions of `perCall` not used yet, below 1. */
  #credit = 0;

  constructor(rng: Rng, perCall: number) {
    this.#rng = rng;
    this.#perCall = perCall;
  }

  /** Starts afresh, with a new random state. */
  refresh(): void {
    this.#random = undefined;
    this.#credit = 0;
  }

  draw(candidates: readonly Pick<Subchannel<C>, 'wantsReport'>[], nowMs: number, drawn: (index: number) => void): void {
    this.#random ??= new Random32(this.#rng);
    let credit = this.#credit + this.#perCall;
    for (; credit >= 1; credit--) {
      const index = this.#random.index(candidates.length);
      if (candidates[index]?.wantsReport(nowMs) === true) drawn(index);
    }
    this.#credit = credit;
  }
}
