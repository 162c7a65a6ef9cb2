import type { ResolveError } from '../../errors.js';
import type { Clock, Timer } from '../../runtime/clock.js';
import { deadline } from '../../runtime/deadline.js';
import { WrongTarget } from '../wrong-target.js';
import { ApiFailure } from './api/api-failure.js';
import type { ServiceFacts } from './slices/service-ports.js';

const LOOKUP_TIMEOUT_MS = 10_000;
/** How often a missing Service is looked for, in ms. It has no slices, so no event announces it. */
const AGAIN_MS = 30_000;

/** What a `ServicePresence` needs. */
export interface ServicePresenceOptions {
  /** The Service's name for messages, such as `shop/orders`. */
  readonly subject: string;
  /** Reads the Service object from the API server. */
  readonly lookup: (signal: AbortSignal) => Promise<ServiceFacts>;
  readonly clock: Clock;
  /** Called with an error if there seems to be no such Service, and with undefined if it exists after all. */
  readonly found: (error: ResolveError | undefined) => void;
}

/**
 * Finds out whether a Service without slices exists at all or its name is wrong. Without permission to read the Service itself, the two
 * cases look the same, and the error says so.
 */
export class ServicePresence {
  readonly #options: ServicePresenceOptions;
  #lookup: AbortController | undefined;
  #again: Timer | undefined;
  #isMissing = false;

  constructor(options: ServicePresenceOptions) {
    this.#options = options;
  }

  /** Tells how many slices the Service has now. */
  slices(count: number): void {
    if (count === 0) {
      if (this.#lookup === undefined) void this.#lookUp();
      return;
    }
    this.close();
    this.#is(undefined);
  }

  close(): void {
    this.#again?.cancel();
    this.#lookup?.abort(new Error('not needed'));
    this.#lookup = undefined;
  }

  async #lookUp(): Promise<void> {
    const { clock, lookup, subject } = this.#options;
    const controller = new AbortController();
    this.#lookup = controller;
    const limit = deadline(clock, () => controller.abort(new Error('no answer in time')), LOOKUP_TIMEOUT_MS);
    let missing: WrongTarget | undefined;
    try {
      await lookup(controller.signal);
    } catch (error) {
      // Only status 404 and a refusal say something about the Service. After any other error, it may well exist.
      const kind = error instanceof ApiFailure ? error.kind : undefined;
      if (kind === 'missing' || kind === 'forbidden') missing = absent(subject, kind, error);
    }
    limit.cancel();
    if (this.#lookup !== controller) return;
    this.#lookup = undefined;
    if (missing !== undefined) this.#again = clock.timer(() => void this.#lookUp(), AGAIN_MS);
    this.#is(missing);
  }

  #is(missing: WrongTarget | undefined): void {
    if (this.#isMissing === (missing !== undefined)) return;
    this.#isMissing = missing !== undefined;
    this.#options.found(missing);
  }
}

function absent(subject: string, kind: 'missing' | 'forbidden', cause: unknown): WrongTarget {
  const [service, namespace] = subject.split('/').reverse();
  const message =
    kind === 'missing'
      ? `there is no Service ${service} in ${namespace === undefined ? 'this namespace' : `the namespace ${namespace}`}`
      : `${namespace ?? 'this namespace'} has no EndpointSlice of a Service ${service}: it does not exist, or nothing is behind it; is the namespace right?`;
  return new WrongTarget('service', message, { cause });
}
