import type { Subchannel } from '../pool/subchannel.js';
import type { Connection } from '../pool/transport.js';
import type { Clock } from '../runtime/clock.js';
import { Random32 } from '../runtime/random32.js';
import type { Rng } from '../runtime/rng.js';
import { SharedTimers } from '../runtime/shared-timers.js';
import type { ResolvedProbeOptions } from './balancer-options.js';
import type { Recording } from './recording.js';

/** What `LoadProbes` needs of its balancer. */
export interface LoadProbesParts<C> {
  readonly clock: Clock;
  readonly rng: Rng;
  readonly options: ResolvedProbeOptions;
  /** The endpoints among which calls are placed by load. */
  readonly compared: () => readonly Subchannel<C>[];
  /** Where those are put that answered last; emptied by its owner. */
  readonly informed: Subchannel<C>[];
  readonly recording?: Recording | undefined;
}

/** How many of the last answers picks compare, besides those they draw. */
const INFORMED = 16;
/** Endpoints asked at once, at most. */
const MOST_ASKED = 256;
/** One that did not answer in time is asked again after this long, twice as long each further time, in ms. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 300_000;
/** Where none ever answered with a report, nobody is asked for this long, twice as long each further time, in ms. */
const FIRST_SILENCE_MS = 60_000;
const LONGEST_SILENCE_MS = 3_600_000;

/** What is known of asking over one connection. */
interface Asked {
  isAsked: boolean;
  notBeforeMs: number;
  pauseMs: number;
}

/**
 * Asks random endpoints how busy they are, a few per call, while the load says that it would help: where one client's calls are
 * too rare to know the servers. Off the path of calls, over connections that are open. A pod that does not answer is left alone
 * for a while, and nothing is held against it.
 */
export class LoadProbes<C> {
  readonly #parts: LoadProbesParts<C>;
  readonly #timers: SharedTimers;
  readonly #draws: ProbeDraws<C>;
  /** Questions asked since creation. */
  sent = 0;
  /** To be asked at the end of this turn, if the set is still this. */
  #dueOf: readonly Subchannel<C>[] = [];
  #due: Subchannel<C>[] = [];
  #spare: Subchannel<C>[] = [];
  /** Aborts the probes under way. */
  readonly #running = new Set<AbortController>();
  #next = 0;
  /** By connection: a pod's successor, or the pod after a restart, is asked anew. */
  readonly #asked = new WeakMap<Connection<C>, Asked>();
  /** Whether any pod ever answered with a report. Until then one is asked at a time. */
  #isKnown = false;
  #silentUntilMs = Number.NEGATIVE_INFINITY;
  #silenceMs = FIRST_SILENCE_MS;
  #closed = false;
  readonly #askDue = (): void => {
    const due = this.#due;
    this.#due = this.#spare;
    if (this.#parts.compared() === this.#dueOf) for (const subchannel of due) this.#ask(subchannel);
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
    // Whatever it said, one gets every call.
    if (candidates.length < 2) return false;
    this.#draws.draw(candidates, nowMs, this.#drawn);
    return true;
  }

  /** From now on endpoints are drawn from nothing but chance. */
  refresh(): void {
    this.#draws.refresh();
  }

  /** Nobody is asked any more, and no answer is waited for. */
  close(): void {
    this.#closed = true;
    this.#due.length = 0;
    this.#timers.close();
    for (const tooLate of this.#running) tooLate.abort();
  }

  #ask(subchannel: Subchannel<C>): void {
    const { connection } = subchannel;
    if (connection?.askForReport === undefined || this.#closed) return;
    // A call that comes meanwhile must not wait behind a question.
    if (subchannel.inFlight + 1 >= subchannel.capacity) return;
    const nowMs = this.#parts.clock.now();
    if (this.#running.size >= (this.#isKnown ? MOST_ASKED : 1) || nowMs < this.#silentUntilMs) return;
    let asked = this.#asked.get(connection);
    if (asked === undefined) {
      asked = { isAsked: false, notBeforeMs: Number.NEGATIVE_INFINITY, pauseMs: FIRST_PAUSE_MS };
      this.#asked.set(connection, asked);
    }
    if (asked.isAsked || nowMs < asked.notBeforeMs) return;
    asked.isAsked = true;
    void this.#send(subchannel, connection, asked);
  }

  async #send(subchannel: Subchannel<C>, connection: Connection<C>, asked: Asked): Promise<void> {
    const { clock, options, compared } = this.#parts;
    const candidates = compared();
    const tooLate = new AbortController();
    this.#running.add(tooLate);
    this.sent++;
    const timer = this.#timers.start(options.timeoutMs, { timedOut: () => tooLate.abort() });
    try {
      const report = await connection.askForReport?.(tooLate.signal);
      if (report === undefined) this.#unanswered(asked, Number.POSITIVE_INFINITY);
      else if (report !== 'busy') {
        this.#isKnown = true;
        asked.pauseMs = FIRST_PAUSE_MS;
        if (subchannel.connection === connection) {
          subchannel.reported(report, clock.now());
          if (this.#parts.compared() === candidates) this.#informed(subchannel);
        }
      }
    } catch {
      this.#unanswered(asked, asked.pauseMs);
    } finally {
      timer.cancel();
      this.#running.delete(tooLate);
      asked.isAsked = false;
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
  #unanswered(asked: Asked, pauseMs: number): void {
    const nowMs = this.#parts.clock.now();
    asked.notBeforeMs = nowMs + pauseMs;
    asked.pauseMs = Math.min(asked.pauseMs * 2, LONGEST_PAUSE_MS);
    if (this.#isKnown) return;
    this.#silentUntilMs = nowMs + this.#silenceMs;
    this.#silenceMs = Math.min(this.#silenceMs * 2, LONGEST_SILENCE_MS);
  }
}

/** Which endpoints are to be asked how busy they are: a few random ones per call, if their load would learn from it. */
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

  /** Begins again from nothing but chance. */
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
