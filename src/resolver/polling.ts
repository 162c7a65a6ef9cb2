import type { Endpoint } from '../endpoint/endpoint.js';
import { asError, isResolveError, ResolveError } from '../errors.js';
import { backoffDelay } from '../runtime/backoff.js';
import { checkFunction, checkNumber, checkString } from '../runtime/check.js';
import type { Timer } from '../runtime/clock.js';
import type { Complete, Filled } from '../runtime/complete.js';
import { deadline } from '../runtime/deadline.js';
import { numberOption, type OptionTable, optionalNumber, optionTable, requiredOption } from '../runtime/options.js';
import { sameEndpoints, sortedEndpoints } from './endpoint-list.js';
import type { Resolution, Resolver, ResolverContext, ResolverListener } from './resolver.js';

/** The result of one lookup. */
export interface PollAnswer {
  /** The whole set; empty means "there are none", not "the lookup failed". */
  readonly endpoints: readonly Endpoint[];
  /** How long the result of a lookup may be used before the next one, in ms; absent: `intervalMs`. */
  readonly validForMs?: number | undefined;
  /** Why the lookup found nothing, in words, for the errors of calls. */
  readonly detail?: string | undefined;
}

/**
 * Looks the endpoints up once. Rejects if that fails; never called while an earlier lookup is running. Should stop when `signal` aborts.
 */
export type PollLook = (signal: AbortSignal) => Promise<PollAnswer>;

/** Options of `polling`. */
export interface PollingOptions {
  /** The name of the resolver, for messages and snapshots. */
  readonly name: string;
  /** Called once per watch; the lookup function it returns may keep state between calls. */
  readonly open: (context: ResolverContext) => PollLook;
  /** Time between lookups if the result of the last one does not say, in ms. @defaultValue 5000 */
  readonly intervalMs?: number | undefined;
  /** Shortest time between lookups, also for `refresh`, which adds up to 20 %, in ms. @defaultValue 1000 */
  readonly minIntervalMs?: number | undefined;
  /** Longest time between lookups, in ms. @defaultValue 30000, or `minIntervalMs` if that is longer */
  readonly maxIntervalMs?: number | undefined;
  /** After this long, in ms, a lookup counts as failed. @defaultValue 5000 */
  readonly timeoutMs?: number | undefined;
  /** Two consecutive empty results at least this far apart empty the set; 0 = one does. In ms. @defaultValue 0 */
  readonly emptyAgreementMs?: number | undefined;
}

const ms = { min: 10, max: 86_400_000 };

export const pollingTable: OptionTable<Filled<PollingOptions, 'maxIntervalMs'>> = optionTable('polling', {
  name: requiredOption(checkString),
  open: requiredOption((name, value) => {
    checkFunction(name, value);
    return value as PollingOptions['open'];
  }),
  intervalMs: numberOption(5_000, ms),
  minIntervalMs: numberOption(1_000, ms),
  maxIntervalMs: optionalNumber(ms),
  timeoutMs: numberOption(5_000, { ...ms, min: 1 }),
  emptyAgreementMs: numberOption(0, { ...ms, min: 0 }),
});

/** The error of a lookup that found nothing so far, while that is not final. */
export class NothingSoFar extends ResolveError {}

/** How much earlier or later than due a lookup may come, as a share, so that clients do not all look up together. */
const JITTER_RATIO = 0.2;

/**
 * Creates a resolver from anything that can be queried: it looks up, publishes changes, and looks up again. One lookup at a time; a failed
 * lookup keeps the last set and backs off from `minIntervalMs`, doubling to `maxIntervalMs`. Throws EVENKEEL_OPTION.
 *
 * @example polling({ name: 'registry', open: () => async (signal) => ({ endpoints: await askRegistry(signal) }) })
 */
export function polling(options: PollingOptions): Resolver {
  const settings = pollingTable.resolve(options);
  const { minIntervalMs } = settings;
  const usual = Math.max(30_000, minIntervalMs);
  const maxIntervalMs = checkNumber('polling.maxIntervalMs', settings.maxIntervalMs, usual, {
    ...ms,
    min: minIntervalMs,
  });
  const plan: Plan = { ...settings, maxIntervalMs };
  return { name: plan.name, watch: (listener, context) => new PollWatch(plan, listener, context) };
}

type Plan = Complete<PollingOptions>;

class PollWatch implements Resolution {
  readonly #plan: Plan;
  readonly #listener: ResolverListener;
  readonly #context: ResolverContext;
  readonly #look: PollLook;
  #last: readonly Endpoint[] | undefined;
  /** When the current sequence of empty results began, on the clock in ms. */
  #emptySinceMs: number | undefined;
  /** How many lookups failed in a row. */
  #failures = 0;
  /** The error last passed to the listener's `fail`, so that one problem is reported once. */
  #reportedFailure: string | undefined;
  /** The timer of the next lookup; it runs only between lookups. */
  #timer: Timer | undefined;
  #dueAtMs = 0;
  #running: AbortController | undefined;
  /** When `refresh` may look up again, on the clock in ms. Drawn once per lookup, as the smallest of many draws would be no jitter. */
  #earliestMs = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(plan: Plan, listener: ResolverListener, context: ResolverContext) {
    this.#plan = plan;
    this.#listener = listener;
    this.#context = context;
    this.#look = plan.open(context);
    context.clock.defer(() => this.#start());
  }

  refresh(): void {
    // A running lookup may have started before the problem, but the next one is soon enough.
    if (this.#closed || this.#timer === undefined) return;
    this.#schedule(Math.max(0, this.#earliestMs - this.#context.clock.now()), 'sooner');
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#running?.abort();
    this.#running = undefined;
  }

  #schedule(delayMs: number, mode: 'set' | 'sooner'): void {
    const dueAtMs = this.#context.clock.now() + delayMs;
    if (mode === 'sooner' && dueAtMs >= this.#dueAtMs) return;
    this.#timer?.cancel();
    this.#dueAtMs = dueAtMs;
    this.#timer = this.#context.clock.timer(() => this.#start(), delayMs);
  }

  #start(): void {
    this.#timer = undefined;
    if (this.#closed || this.#running !== undefined) return;
    const run = new AbortController();
    this.#running = run;
    const { clock } = this.#context;
    const { timeoutMs } = this.#plan;
    // A lookup that ignores its signal must not stop the polling: its late result is ignored.
    const late = (): void => {
      run.abort();
      ended(() => this.#failed(new ResolveError(`${this.#plan.name}: no answer within ${timeoutMs} ms`)));
    };
    const limit = deadline(clock, late, timeoutMs);
    const ended = (then: () => void): void => {
      limit.cancel();
      if (this.#running !== run) return;
      this.#running = undefined;
      this.#earliestMs = clock.now() + this.#plan.minIntervalMs * (1 + JITTER_RATIO * this.#context.rng.next());
      then();
    };
    this.#call(run.signal).then(
      (answer) => ended(() => this.#answered(answer)),
      (error: unknown) => ended(() => this.#failed(error)),
    );
  }

  async #call(signal: AbortSignal): Promise<PollAnswer> {
    const answer = await this.#look(signal);
    // The lookup function may be the application's: an invalid result is a failed lookup.
    if (!Array.isArray(answer?.endpoints)) throw new TypeError('the look gave no list of endpoints');
    return answer;
  }

  #answered({ endpoints, validForMs, detail }: PollAnswer): void {
    this.#failures = 0;
    const { intervalMs, minIntervalMs, maxIntervalMs, emptyAgreementMs } = this.#plan;
    const nowMs = this.#context.clock.now();
    // The lookup function may be the application's: NaN must not become a timer that fires immediately.
    const validMs = Number.isFinite(validForMs) ? (validForMs as number) : intervalMs;
    let delayMs = Math.min(maxIntervalMs, Math.max(minIntervalMs, validMs));
    delayMs *= 1 - JITTER_RATIO * this.#context.rng.next();
    if (endpoints.length > 0) {
      this.#emptySinceMs = undefined;
    } else {
      this.#emptySinceMs ??= nowMs;
      const leftMs = this.#emptySinceMs + emptyAgreementMs - nowMs;
      // An empty result is not final yet. The lookup that decides comes as soon as allowed.
      if (leftMs > 0) {
        this.#schedule(Math.max(leftMs, minIntervalMs), 'set');
        if (this.#last === undefined) {
          this.#tellFailure(new NothingSoFar(detail ?? `${this.#plan.name}: it has no endpoint so far`));
        }
        return;
      }
    }
    this.#schedule(delayMs, 'set');
    this.#publish(endpoints, detail);
  }

  #publish(endpoints: readonly Endpoint[], detail: string | undefined): void {
    const sorted = sortedEndpoints(endpoints);
    const hadFailed = this.#reportedFailure !== undefined;
    this.#reportedFailure = undefined;
    if (this.#last !== undefined && sameEndpoints(this.#last, sorted)) {
      if (hadFailed) this.#listener.fresh();
      return;
    }
    this.#last = sorted;
    if (sorted.length > 0) this.#listener.update(sorted);
    else this.#listener.update(sorted, detail);
  }

  #failed(reason: unknown): void {
    this.#failures++;
    const { rng } = this.#context;
    const { minIntervalMs, maxIntervalMs, name } = this.#plan;
    const base = backoffDelay(
      { initialMs: minIntervalMs, factor: 2, maxMs: maxIntervalMs, jitterRatio: 0 },
      this.#failures,
      rng,
    );
    this.#schedule(base * (1 + JITTER_RATIO * rng.next()), 'set');
    const error = isResolveError(reason)
      ? reason
      : new ResolveError(`${name}: ${asError(reason).message}`, { cause: reason });
    this.#tellFailure(error);
  }

  #tellFailure(error: ResolveError): void {
    if (error.message === this.#reportedFailure) return;
    this.#reportedFailure = error.message;
    this.#listener.fail(error);
  }
}
