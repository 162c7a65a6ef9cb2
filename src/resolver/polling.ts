import type { Endpoint } from '../endpoint/endpoint.js';
import { asError, isResolveError, ResolveError } from '../errors.js';
import { backoffDelay } from '../runtime/backoff.js';
import { checkFunction, checkKeys, checkNumber, checkString } from '../runtime/check.js';
import type { Timer } from '../runtime/clock.js';
import type { Complete } from '../runtime/complete.js';
import { sameEndpoints, sortedEndpoints } from './endpoint-list.js';
import type { Resolution, Resolver, ResolverContext, ResolverListener } from './resolver.js';

/** What one look found. */
export interface PollAnswer {
  /** The whole set; empty means "there are none", not "I could not look". */
  readonly endpoints: readonly Endpoint[];
  /** How long the answer may be used before the next look, in ms; absent: `intervalMs`. */
  readonly validForMs?: number | undefined;
  /** Why nothing was found, in words, for callers waiting for the first endpoint. */
  readonly detail?: string | undefined;
}

/** Looks once. Rejects when it could not look; never called while an earlier look runs. Should stop when `signal` aborts. */
export type PollLook = (signal: AbortSignal) => Promise<PollAnswer>;

/** Options of `polling`. */
export interface PollingOptions {
  /** For messages and snapshots. */
  readonly name: string;
  /** Called once per watch; the look it returns may keep state between calls. */
  readonly open: (context: ResolverContext) => PollLook;
  /** Time between looks where the answer does not say, in ms. @defaultValue 5000 */
  readonly intervalMs?: number | undefined;
  /** Shortest time between looks, also for `refresh`, in ms. @defaultValue 1000 */
  readonly minIntervalMs?: number | undefined;
  /** Longest time between looks, in ms. @defaultValue 30000, or `minIntervalMs` if that is longer */
  readonly maxIntervalMs?: number | undefined;
  /** When a look counts as failed, in ms. @defaultValue 5000 */
  readonly timeoutMs?: number | undefined;
  /** Two empty answers at least this far apart, without another between, empty the set; 0 = one does. In ms. @defaultValue 0 */
  readonly emptyAgreementMs?: number | undefined;
}

/** Nothing was found, which is not believed yet. */
export class NothingSoFar extends ResolveError {}

/** How much sooner than told the next look may come, so that clients do not look all at once. */
const EARLY_RATIO = 0.2;

/**
 * Makes a resolver of anything that can be asked: looks, publishes what changed, looks again. One look at a time; a failed
 * look keeps the last set and backs off from `minIntervalMs`, doubling to `maxIntervalMs`. Throws EVENKEEL_OPTION.
 *
 * @example
 * polling({ name: 'registry', open: () => async (signal) => ({ endpoints: await askRegistry(signal) }) })
 */
export function polling(options: PollingOptions): Resolver {
  checkKeys('polling', options, [
    'name',
    'open',
    'intervalMs',
    'minIntervalMs',
    'maxIntervalMs',
    'timeoutMs',
    'emptyAgreementMs',
  ]);
  checkFunction('polling.open', options.open);
  const ms = (key: keyof PollingOptions, fallback: number, min: number): number =>
    checkNumber(key, options[key], fallback, { min, max: 86_400_000 });
  const minIntervalMs = ms('minIntervalMs', 1_000, 10);
  const plan: Plan = {
    open: options.open,
    name: checkString('name', options.name),
    intervalMs: ms('intervalMs', 5_000, 10),
    minIntervalMs,
    maxIntervalMs: ms('maxIntervalMs', Math.max(30_000, minIntervalMs), minIntervalMs),
    timeoutMs: ms('timeoutMs', 5_000, 1),
    emptyAgreementMs: ms('emptyAgreementMs', 0, 0),
  };
  return { name: plan.name, watch: (listener, context) => new PollWatch(plan, listener, context) };
}

type Plan = Complete<PollingOptions>;

class PollWatch implements Resolution {
  readonly #plan: Plan;
  readonly #listener: ResolverListener;
  readonly #context: ResolverContext;
  readonly #look: PollLook;
  #last: readonly Endpoint[] | undefined;
  /** When the present row of empty answers began. */
  #emptySinceMs: number | undefined;
  /** Failures in a row. */
  #failures = 0;
  /** What `fail` was told last, so that one trouble is told once. */
  #toldFailure: string | undefined;
  /** Runs between looks only. */
  #timer: Timer | undefined;
  #dueAtMs = 0;
  #running: AbortController | undefined;
  #lastEndMs = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(plan: Plan, listener: ResolverListener, context: ResolverContext) {
    this.#plan = plan;
    this.#listener = listener;
    this.#context = context;
    this.#look = plan.open(context);
    context.clock.defer(() => this.#start());
  }

  refresh(): void {
    // A look that runs may have asked before the trouble, but the next one is near enough.
    if (this.#closed || this.#timer === undefined) return;
    const sinceLastMs = this.#context.clock.now() - this.#lastEndMs;
    this.#schedule(Math.max(0, this.#plan.minIntervalMs - sinceLastMs), 'sooner');
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
    // A look that does not heed its signal must not stop the polling: its result is ignored, whenever it comes.
    const limit = clock.timer(() => {
      run.abort();
      ended(() => this.#failed(new ResolveError(`${this.#plan.name}: no answer within ${timeoutMs} ms`)));
    }, timeoutMs);
    const ended = (then: () => void): void => {
      limit.cancel();
      if (this.#running !== run) return;
      this.#running = undefined;
      this.#lastEndMs = clock.now();
      then();
    };
    this.#call(run.signal).then(
      (answer) => ended(() => this.#answered(answer)),
      (error: unknown) => ended(() => this.#failed(error)),
    );
  }

  async #call(signal: AbortSignal): Promise<PollAnswer> {
    const answer = await this.#look(signal);
    // Looks are written by users, too: what is no answer is a failed look.
    if (!Array.isArray(answer?.endpoints)) throw new TypeError('the look gave no list of endpoints');
    return answer;
  }

  #answered({ endpoints, validForMs, detail }: PollAnswer): void {
    this.#failures = 0;
    const { intervalMs, minIntervalMs, maxIntervalMs, emptyAgreementMs } = this.#plan;
    const nowMs = this.#context.clock.now();
    // A look may be anybody's: a number that is none must not become a timer that fires at once.
    const validMs = Number.isFinite(validForMs) ? (validForMs as number) : intervalMs;
    let delayMs = Math.min(maxIntervalMs, Math.max(minIntervalMs, validMs));
    delayMs *= 1 - EARLY_RATIO * this.#context.rng.next();
    if (endpoints.length > 0) {
      this.#emptySinceMs = undefined;
    } else {
      this.#emptySinceMs ??= nowMs;
      const leftMs = this.#emptySinceMs + emptyAgreementMs - nowMs;
      // D7: not believed yet. The look that settles it comes as soon as it may.
      if (leftMs > 0) {
        this.#schedule(Math.max(leftMs, minIntervalMs), 'set');
        if (this.#last === undefined) {
          const found = detail ?? `${this.#plan.name}: no endpoint so far`;
          this.#tellFailure(new NothingSoFar(`${found} (believed once another look finds the same)`));
        }
        return;
      }
    }
    this.#schedule(delayMs, 'set');
    this.#publish(endpoints);
  }

  #publish(endpoints: readonly Endpoint[]): void {
    const sorted = sortedEndpoints(endpoints);
    const hadFailed = this.#toldFailure !== undefined;
    this.#toldFailure = undefined;
    if (this.#last !== undefined && sameEndpoints(this.#last, sorted)) {
      if (hadFailed) this.#listener.fresh();
      return;
    }
    this.#last = sorted;
    this.#listener.update(sorted);
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
    this.#schedule(base * (1 + EARLY_RATIO * rng.next()), 'set');
    const error = isResolveError(reason)
      ? reason
      : new ResolveError(`${name}: ${asError(reason).message}`, { cause: reason });
    this.#tellFailure(error);
  }

  #tellFailure(error: ResolveError): void {
    if (error.message === this.#toldFailure) return;
    this.#toldFailure = error.message;
    this.#listener.fail(error);
  }
}
