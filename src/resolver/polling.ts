import type { Endpoint } from '../endpoint/endpoint.js';
import { asError, isResolveError, ResolveError } from '../errors.js';
import { backoffDelay } from '../runtime/backoff.js';
import { checkFunction, checkNumber, checkString } from '../runtime/check.js';
import type { Timer } from '../runtime/clock.js';
import type { Complete, Filled } from '../runtime/complete.js';
import { deadline } from '../runtime/deadline.js';
import { numberOption, type OptionTable, optionalNumber, optionTable, requiredOption } from '../runtime/options.js';
import { sortedEndpoints } from './endpoint-list.js';
import { Announcer } from './resolved.js';
import type { Resolution, Resolver, ResolverContext, ResolverListener } from './resolver.js';

/** The result of one lookup. */
export interface PollAnswer {
  /** All endpoints. An empty array means that there are none; a lookup that failed must reject instead. */
  readonly endpoints: readonly Endpoint[];
  /** How long the result stays valid, in ms; the next lookup comes after that time. If it is left out, `intervalMs` applies. */
  readonly validForMs?: number | undefined;
  /** The reason why the lookup found nothing, as text; it becomes part of the errors of requests. */
  readonly detail?: string | undefined;
}

/**
 * Looks the endpoints up once. It rejects if that fails, and should stop when `signal` aborts. It is never called while an earlier lookup
 * is still running.
 */
export type PollLook = (signal: AbortSignal) => Promise<PollAnswer>;

/**
 * Options of `polling`: what to query, how often, and how long to wait. They are fixed once the resolver is created; an invalid one
 * throws EVENKEEL_OPTION.
 */
export interface PollingOptions {
  /** The name of the resolver in messages and snapshots. */
  readonly name: string;
  /**
   * Returns the function that looks up the endpoints. Called once for each watch, so that this function may keep state between lookups.
   */
  readonly open: (context: ResolverContext) => PollLook;
  /** The time between two lookups if the result does not say how long it is valid, in ms. @defaultValue 5000 */
  readonly intervalMs?: number | undefined;
  /**
   * The shortest time between two lookups, in ms. It also applies if a lookup is requested early by `refresh`, and then up to 20 % are
   * added. @defaultValue 1000
   */
  readonly minIntervalMs?: number | undefined;
  /** The longest time between two lookups, in ms. @defaultValue 30000, or `minIntervalMs` if that is longer */
  readonly maxIntervalMs?: number | undefined;
  /** How long a lookup may take before it counts as failed, in ms. @defaultValue 5000 */
  readonly timeoutMs?: number | undefined;
  /**
   * How far apart two empty results in a row must be for the set to be emptied, in ms. 0 means that one empty result is enough.
   * @defaultValue 0
   */
  readonly emptyAgreementMs?: number | undefined;
}

const ms = { min: 10, max: 86_400_000 };

const pollingTable: OptionTable<Filled<PollingOptions, 'maxIntervalMs'>> = optionTable('polling', {
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

/** The error while lookups have found nothing, but one more result is needed to be certain of that. */
export class NothingSoFar extends ResolveError {}

/** By which share the time to the next lookup is varied at random, so that clients do not all query at the same moment. */
const JITTER_RATIO = 0.2;

/**
 * Creates a resolver from anything that can be queried. It looks the endpoints up, publishes them if they have changed, and does so again
 * after a while. After a failed lookup the last set stays in use, and the next lookup comes after `minIntervalMs`, which doubles with each
 * further failure up to `maxIntervalMs`. Throws EVENKEEL_OPTION.
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
  readonly #announcer: Announcer;
  readonly #context: ResolverContext;
  readonly #look: PollLook;
  /** When the first of the current empty results in a row came, on the clock in ms. */
  #emptySinceMs: number | undefined;
  /** How many lookups failed in a row. */
  #failures = 0;
  /** The timer of the next lookup; undefined while a lookup is running. */
  #timer: Timer | undefined;
  #dueAtMs = 0;
  #running: AbortController | undefined;
  /**
   * The earliest time for a lookup requested by `refresh`, on the clock in ms. The random part is drawn once for each lookup, because the
   * minimum of many draws would always be close to 0.
   */
  #earliestMs = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(plan: Plan, listener: ResolverListener, context: ResolverContext) {
    this.#plan = plan;
    this.#announcer = new Announcer(listener);
    this.#context = context;
    this.#look = plan.open(context);
    context.clock.defer(() => this.#start());
  }

  refresh(): void {
    // A lookup is already running. It may have started before the problem, but then the next one finds it soon enough.
    if (this.#closed || this.#timer === undefined) return;
    this.#schedule(Math.max(0, this.#earliestMs - this.#context.clock.now()), 'sooner');
  }

  close(): void {
    this.#closed = true;
    this.#announcer.close();
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
    // A lookup that ignores its signal must not stop the polling. If its result comes later, it is ignored.
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
    // The function may come from the application, so its result is checked. An invalid one counts as a failed lookup.
    if (!Array.isArray(answer?.endpoints)) throw new TypeError('the look gave no list of endpoints');
    return answer;
  }

  #answered({ endpoints, validForMs, detail }: PollAnswer): void {
    this.#failures = 0;
    const { intervalMs, minIntervalMs, maxIntervalMs, emptyAgreementMs } = this.#plan;
    const nowMs = this.#context.clock.now();
    // The function may come from the application: with NaN, the timer would fire immediately, again and again.
    const validMs = Number.isFinite(validForMs) ? (validForMs as number) : intervalMs;
    let delayMs = Math.min(maxIntervalMs, Math.max(minIntervalMs, validMs));
    delayMs *= 1 - JITTER_RATIO * this.#context.rng.next();
    if (endpoints.length > 0) {
      this.#emptySinceMs = undefined;
    } else {
      this.#emptySinceMs ??= nowMs;
      const leftMs = this.#emptySinceMs + emptyAgreementMs - nowMs;
      // A single empty result is not enough. The next lookup decides, and comes as soon as it may.
      if (leftMs > 0) {
        this.#schedule(Math.max(leftMs, minIntervalMs), 'set');
        if (this.#announcer.announced.endpoints !== undefined) return;
        this.#fail(new NothingSoFar(detail ?? `${this.#plan.name}: it has no endpoint so far`));
        return;
      }
    }
    this.#schedule(delayMs, 'set');
    this.#announcer.say({ endpoints: sortedEndpoints(endpoints), emptyBecause: detail, error: undefined });
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
    this.#fail(error);
  }

  #fail(error: ResolveError): void {
    this.#announcer.say({ ...this.#announcer.announced, error });
  }
}
