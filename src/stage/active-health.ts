import { isPerEndpointError } from '../credentials/per-endpoint.js';
import { type Endpoint, endpointAddress } from '../endpoint/endpoint.js';
import type { EndpointSet } from '../endpoint/endpoint-set.js';
import { asError, isEvenkeelError } from '../errors.js';
import { notify } from '../observe/observer.js';
import { orAborted } from '../runtime/abort-listeners.js';
import type { Timer } from '../runtime/clock.js';
import type { Filled } from '../runtime/complete.js';
import { deadline } from '../runtime/deadline.js';
import { described } from '../runtime/described.js';
import { functionOption, numberOption, type OptionTable, optionTable } from '../runtime/options.js';
import { jittered } from '../runtime/rng.js';
import type { Stage, StageContext, StageFactory, Tracker } from './stage.js';

/**
 * Options of `activeHealth`: how often endpoints are probed and how, and how many results it takes to change the verdict. Invalid options
 * throw EVENKEEL_OPTION.
 */
export interface ActiveHealthOptions {
  /** How often each endpoint is probed, in ms, ± 20 %. @defaultValue 10000 */
  readonly intervalMs?: number | undefined;
  /** How long a probe may take, in ms. @defaultValue 1000 */
  readonly timeoutMs?: number | undefined;
  /** After this many failed probes in a row, an endpoint is suspect. @defaultValue 3 */
  readonly unhealthyAfter?: number | undefined;
  /** After this many successful probes in a row, an endpoint is no longer suspect. @defaultValue 2 */
  readonly healthyAfter?: number | undefined;
  /** Probes an endpoint: resolves if it is healthy, rejects if not. @defaultValue the `ping` of its connection */
  readonly check?: ((endpoint: Endpoint, signal: AbortSignal) => Promise<void>) | undefined;
}

export const activeHealthTable: OptionTable<Filled<ActiveHealthOptions, 'check'>> = optionTable('activeHealth', {
  intervalMs: numberOption(10_000, { min: 10, max: 86_400_000 }),
  timeoutMs: numberOption(1_000, { min: 1, max: 600_000 }),
  unhealthyAfter: numberOption(3, { min: 1, max: 1_000, integer: true }),
  healthyAfter: numberOption(2, { min: 1, max: 1_000, integer: true }),
  check: functionOption<NonNullable<ActiveHealthOptions['check']>>(),
});
type HealthRules = typeof activeHealthTable.defaults;

const JITTER_RATIO = 0.2;

/**
 * Probes every connected endpoint periodically, and marks those that do not respond as suspect. For connections with few calls, where a
 * failure would go unnoticed until the next call; with traffic, `outlierEjection` is faster and knows more. Endpoints without a connection
 * are not probed, because the pool is already trying to connect. If the transport cannot ping, this is reported once and no endpoint
 * becomes suspect. Throws EVENKEEL_OPTION for invalid options.
 */
export const activeHealth = (options: ActiveHealthOptions = {}): StageFactory => {
  const rules = activeHealthTable.resolve(options);
  return described((context) => new ActiveHealth(rules, context), 'activeHealth');
};

class ActiveHealth implements Stage {
  readonly #rules: HealthRules;
  readonly #context: StageContext;
  readonly #probed = new Map<string, ProbedEndpoint>();
  /** Whether it was found that the transport cannot ping. */
  #impossible = false;

  constructor(rules: HealthRules, context: StageContext) {
    this.#rules = rules;
    this.#context = context;
  }

  track(endpoint: Endpoint): Tracker {
    const probed = new ProbedEndpoint(endpoint, this.#rules, this.#context, {
      forget: () => {
        if (this.#probed.get(endpoint.key) === probed) this.#probed.delete(endpoint.key);
      },
      impossible: (error) => this.#giveUp(error),
    });
    this.#probed.set(endpoint.key, probed);
    return probed;
  }

  apply(set: EndpointSet): EndpointSet {
    return set.map((entry) =>
      this.#probed.get(entry.endpoint.key)?.isUnhealthy === true ? { ...entry, suspect: true } : entry,
    );
  }

  close(): void {
    for (const probed of this.#probed.values()) probed.stop();
  }

  #giveUp(error: Error): void {
    for (const probed of this.#probed.values()) probed.stop();
    if (this.#impossible) return;
    this.#impossible = true;
    notify(this.#context.observer, 'warned', { message: `activeHealth does nothing: ${error.message}`, error });
  }
}

/** One probed endpoint. */
class ProbedEndpoint implements Tracker {
  isUnhealthy = false;
  readonly #endpoint: Endpoint;
  readonly #rules: HealthRules;
  readonly #context: StageContext;
  readonly #owner: { forget(): void; impossible(error: Error): void };
  /** How many probes in a row contradict the current verdict on the endpoint. */
  #contradicting = 0;
  #timer: Timer | undefined;
  #probe: AbortController | undefined;
  #stopped = false;

  constructor(
    endpoint: Endpoint,
    rules: HealthRules,
    context: StageContext,
    owner: { forget(): void; impossible(error: Error): void },
  ) {
    this.#endpoint = endpoint;
    this.#rules = rules;
    this.#context = context;
    this.#owner = owner;
  }

  connected(): void {
    this.#pause();
    this.#schedule(this.#context.rng.next() * this.#rules.intervalMs);
  }

  disconnected(): void {
    this.#pause();
  }

  closed(): void {
    this.stop();
    this.#owner.forget();
  }

  stop(): void {
    this.#stopped = true;
    this.#pause();
  }

  #pause(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#probe?.abort();
    this.#probe = undefined;
  }

  #schedule(delayMs: number): void {
    if (!this.#stopped) this.#timer = this.#context.clock.timer(() => void this.#probeNow(), delayMs);
  }

  async #probeNow(): Promise<void> {
    const { clock, rng, probe } = this.#context;
    const { timeoutMs, intervalMs, check = probe } = this.#rules;
    const limit = new AbortController();
    this.#probe = limit;
    let error: Error | undefined;
    const timer = deadline(clock, () => limit.abort(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    try {
      // A check may ignore its signal.
      await orAborted(check(this.#endpoint, limit.signal), limit.signal);
    } catch (reason) {
      error = asError(reason);
    } finally {
      timer.cancel();
    }
    if (this.#probe !== limit) return; // the endpoint's probing was paused meanwhile: the result proves nothing
    this.#probe = undefined;
    const says = error === undefined || !isPerEndpointError(error);
    if (says && isEvenkeelError(error) && error.code === 'EVENKEEL_OPTION') {
      this.#owner.impossible(error);
      return;
    }
    // If a function of the application failed, this says nothing about the endpoint.
    if (says) this.#judge(error);
    this.#schedule(jittered(rng, intervalMs, JITTER_RATIO));
  }

  #judge(error: Error | undefined): void {
    const { unhealthyAfter, healthyAfter, intervalMs } = this.#rules;
    if ((error !== undefined) === this.isUnhealthy) {
      this.#contradicting = 0;
      return;
    }
    this.#contradicting++;
    if (this.#contradicting < (this.isUnhealthy ? healthyAfter : unhealthyAfter)) return;
    this.#contradicting = 0;
    this.isUnhealthy = !this.isUnhealthy;
    const { observer, invalidate } = this.#context;
    const endpoint = this.#endpoint;
    if (this.isUnhealthy) {
      const reason = `${unhealthyAfter} probes of ${endpointAddress(endpoint)} failed: ${error?.message}`;
      notify(observer, 'ejected', { endpoint, reason, cause: 'probe', durationMs: intervalMs * healthyAfter });
    } else notify(observer, 'restored', { endpoint, reason: `${healthyAfter} probes succeeded` });
    invalidate();
  }
}
