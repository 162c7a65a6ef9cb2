import type { Endpoint } from '../endpoint/endpoint.js';
import type { EndpointSet } from '../endpoint/endpoint-set.js';
import type { Outcome } from '../endpoint/outcome.js';
import type { Timer } from '../runtime/clock.js';
import type { Complete } from '../runtime/complete.js';
import { described } from '../runtime/described.js';
import { numberOption, type OptionTable, optionTable } from '../runtime/options.js';
import type { Stage, StageContext, StageFactory, Tracker } from './stage.js';

/**
 * Options of `pushback`: how much traffic an endpoint keeps while it asked for a pause, and how long a pause may be. Invalid options throw
 * EVENKEEL_OPTION.
 */
export interface PushbackOptions {
  /** The share of its weight that an endpoint keeps during a pause that it asked for, above 0 to 1. @defaultValue 0.1 */
  readonly ratio?: number | undefined;
  /** The longest pause that is granted, in ms. @defaultValue 60000 */
  readonly maxMs?: number | undefined;
}

export const pushbackTable: OptionTable<Complete<PushbackOptions>> = optionTable('pushback', {
  ratio: numberOption(0.1, { min: 0.001, max: 1 }),
  maxMs: numberOption(60_000, { min: 1, max: 3_600_000 }),
});

/**
 * Gives an endpoint that says "not now, come back in 5 s" (`Retry-After`, gRPC's pushback) a tenth of its share until then. This does not
 * make the endpoint suspect: it works, and does not count towards panic.
 *
 * If more than half of the endpoints ask for a pause, all keep their weights, because moving the load of many to a few would only move the
 * problem. This is also right if the pause comes from a limit on individual callers and not from the endpoint.
 */
export const pushback = (options: PushbackOptions = {}): StageFactory => {
  const { ratio, maxMs } = pushbackTable.resolve(options);
  return described((context) => new Pushback(ratio, maxMs, context), 'pushback');
};

/** The pause that one endpoint asked for. */
class EndpointPause implements Tracker {
  readonly ignoresSuccess = true;
  untilMs = Number.NEGATIVE_INFINITY;
  readonly #stage: { requested(pause: EndpointPause, retryAfterMs: number): void; forget(pause: EndpointPause): void };

  constructor(stage: {
    requested(pause: EndpointPause, retryAfterMs: number): void;
    forget(pause: EndpointPause): void;
  }) {
    this.#stage = stage;
  }

  completed({ retryAfterMs }: Outcome): void {
    if (retryAfterMs !== undefined && retryAfterMs > 0) this.#stage.requested(this, retryAfterMs);
  }

  closed(): void {
    this.#stage.forget(this);
  }
}

class Pushback implements Stage {
  readonly #ratio: number;
  readonly #maxMs: number;
  readonly #context: StageContext;
  readonly #pauses = new Map<string, EndpointPause>();
  #timer: Timer | undefined;

  constructor(ratio: number, maxMs: number, context: StageContext) {
    this.#ratio = ratio;
    this.#maxMs = maxMs;
    this.#context = context;
  }

  track({ key }: Endpoint): Tracker {
    const { clock } = this.#context;
    const pause = new EndpointPause({
      requested: (pause, retryAfterMs) => {
        const nowMs = clock.now();
        const isNews = pause.untilMs <= nowMs;
        pause.untilMs = Math.max(pause.untilMs, nowMs + Math.min(retryAfterMs, this.#maxMs));
        if (isNews) this.#context.invalidate();
      },
      forget: (gone) => {
        if (this.#pauses.get(key) === gone) this.#pauses.delete(key);
      },
    });
    this.#pauses.set(key, pause);
    return pause;
  }

  apply(set: EndpointSet): EndpointSet {
    this.#timer?.cancel();
    this.#timer = undefined;
    const nowMs = this.#context.clock.now();
    const paused = new Set<Endpoint>();
    let usable = 0;
    let nextMs = Number.POSITIVE_INFINITY;
    for (const { endpoint, weight, suspect } of set.entries) {
      if (weight <= 0 || suspect) continue;
      usable++;
      const untilMs = this.#pauses.get(endpoint.key)?.untilMs ?? nowMs;
      if (untilMs <= nowMs) continue;
      paused.add(endpoint);
      nextMs = Math.min(nextMs, untilMs);
    }
    if (paused.size === 0) return set;
    this.#timer = this.#context.clock.timer(() => this.#context.invalidate(), nextMs - nowMs);
    if (2 * paused.size > usable) return set;
    return set.map((entry) => (paused.has(entry.endpoint) ? { ...entry, weight: entry.weight * this.#ratio } : entry));
  }

  close(): void {
    this.#timer?.cancel();
  }
}
