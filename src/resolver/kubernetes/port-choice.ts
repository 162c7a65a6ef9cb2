import { asError, ResolveError } from '../../errors.js';
import type { Clock, Timer } from '../../runtime/clock.js';
import { deadline } from '../../runtime/deadline.js';
import type { Rng } from '../../runtime/rng.js';
import { WrongTarget } from '../wrong-target.js';
import { ApiFailure } from './api/api-failure.js';
import type { EndpointSlice } from './slices/endpoint-slice.js';
import { ambiguousPort, nameOfPort, noSuchPort, portNames, type ServiceFacts } from './slices/service-ports.js';
import { WatchBackoff } from './watch/watch-backoff.js';

const LOOKUP_TIMEOUT_MS = 30_000;
/**
 * How long a choice of port waits for the Service object, in ms, if the slices have only one possible port: then the Service object could
 * only show that the user's options are wrong.
 */
const CHECK_MS = 1_000;

/** What a `PortChoice` needs. */
export interface PortChoiceOptions {
  /** The port that the user means: its name, the Service's port number, or undefined for the only port. */
  readonly port: string | number | undefined;
  /** The Service's name for messages, such as `shop/orders`. */
  readonly subject: string;
  /** Reads the Service object from the API server. */
  readonly lookup: (signal: AbortSignal) => Promise<ServiceFacts>;
  readonly clock: Clock;
  readonly rng: Rng;
  /** Called when `choose` may return something else than before. */
  readonly changed: () => void;
  /** Called with an error when no port can be chosen, and with undefined when one can be chosen again. */
  readonly failed: (error: ResolveError | undefined) => void;
}

/** What was learned from the Service object about its ports, or the error if it could not be read. */
interface KnownPorts {
  /** The port names of the slices when the Service object was requested, as one text. */
  readonly key: string;
  readonly service?: ServiceFacts;
  readonly error?: unknown;
}

/**
 * Finds the name of the port that the user means in the EndpointSlices of a Service. If the user gave a number, it is the Service's port
 * number, and its name is looked up in the Service object.
 */
export class PortChoice {
  readonly #options: PortChoiceOptions;
  readonly #backoff: WatchBackoff;
  #answer: KnownPorts | undefined;
  /** The name of the port that was chosen last. It stays chosen until something better is known. */
  #chosen: string | undefined;
  #lookup: AbortController | undefined;
  #limit: Timer | undefined;
  #retry: Timer | undefined;
  #patience: Timer | undefined;
  #impatient = false;
  #error: ResolveError | undefined;
  #closed = false;

  constructor(options: PortChoiceOptions) {
    this.#options = options;
    this.#backoff = new WatchBackoff(options.clock, options.rng);
  }

  /** Returns the name of the port to use, or undefined while it is unknown; in that case `changed` or `failed` is called later. */
  choose(slices: readonly EndpointSlice[]): string | undefined {
    const { port, subject } = this.#options;
    const names = portNames(slices);
    // Without pods there is no port to choose from, and no reason to report a mistake yet. If there are pods again, their Service may have
    // been created anew, with other port numbers.
    if (names.length === 0) {
      this.#answer = undefined;
      return this.#settled(typeof port === 'string' ? port : '');
    }
    if (typeof port === 'string') return this.#byName(names, port);
    if (port !== undefined) return this.#byNumber(names, port, slices);
    if (names.length === 1) return this.#settled(names[0]);
    this.#settle(ambiguousPort(subject, port, names, 'nothing says which one'));
    return undefined;
  }

  close(): void {
    this.#closed = true;
    this.#retry?.cancel();
    this.#patience?.cancel();
    this.#limit?.cancel();
    this.#lookup?.abort(new Error('closed'));
  }

  /**
   * Chooses a port by its name. If no slice has a port with that name, the set is empty; if the name looks like a typing error, an error
   * lists the existing names, too.
   */
  #byName(names: readonly string[], port: string): string | undefined {
    if (names.includes(port) || this.#chosen === port) return this.#chose(port);
    const { subject } = this.#options;
    const answer = this.#answerFor(names);
    if (answer?.service !== undefined) {
      const { ports } = answer.service;
      if (ports.some(({ name, protocol }) => name === port && protocol === 'TCP')) return this.#settled(port);
      this.#refuse(noSuchPort(subject, port, answer.service));
      return port;
    }
    if (answer === undefined && !this.#impatient) return undefined;
    const list = names.map((name) => JSON.stringify(name)).join(', ');
    const message = `no EndpointSlice of ${subject} has a port named ${JSON.stringify(port)}; there is ${list}`;
    this.#refuse(new WrongTarget('port', message));
    return port;
  }

  #byNumber(names: readonly string[], port: number, slices: readonly EndpointSlice[]): string | undefined {
    const { subject } = this.#options;
    const answer = this.#answerFor(names);
    const isCurrent = answer === this.#answer;
    // An older answer about the Service is used until there is a new one.
    const service = (answer ?? this.#answer)?.service;
    const held = this.#chosen !== undefined && names.includes(this.#chosen) ? this.#chosen : undefined;
    if (service !== undefined) {
      const name = nameOfPort(service, slices, port);
      if (name !== undefined && names.includes(name)) return this.#chose(name);
      if (!isCurrent) return held;
      // The Service has the port, but the pods do not have it yet, or have it under an older name.
      if (name !== undefined) return this.#settled(held ?? name);
      this.#refuse(noSuchPort(subject, port, service));
      return held;
    }
    // If the slices can be read but not the Service, and the slices have a single port, that port is used, whatever number the user
    // gave.
    if (names.length === 1) {
      if (answer === undefined && !this.#impatient) return held;
      if (answer !== undefined && !isRefusal(answer.error)) this.#lookUpLater('soon');
      return this.#chose(names[0] as string);
    }
    if (answer !== undefined) {
      this.#lookUpLater(isRefusal(answer.error) ? 'now and then' : 'soon');
      this.#settle(this.#unreadable(names, port, answer.error));
    }
    return held;
  }

  #unreadable(names: readonly string[], port: number, error: unknown): ResolveError {
    const { subject } = this.#options;
    if (isRefusal(error)) {
      const why = `its port table cannot be read without the verb get on services (${asError(error).message})`;
      return ambiguousPort(subject, port, names, why, error);
    }
    const message = `the port table of the Service ${subject} cannot be read: ${asError(error).message}`;
    return new ResolveError(message, { cause: error });
  }

  /** Returns what the Service object says about the current port names of the slices; undefined while it is being read. */
  #answerFor(names: readonly string[]): KnownPorts | undefined {
    const key = JSON.stringify(names);
    if (this.#answer?.key === key) return this.#answer;
    this.#lookUp(key);
    return undefined;
  }

  /** Reads the Service object to learn which port the user means. There is only one such request at a time. */
  #lookUp(key: string): void {
    if (this.#closed || this.#lookup !== undefined) return;
    const { clock, lookup, changed } = this.#options;
    this.#retry?.cancel();
    this.#retry = undefined;
    const controller = new AbortController();
    this.#lookup = controller;
    this.#limit = deadline(clock, () => controller.abort(new Error('no answer within 30 s')), LOOKUP_TIMEOUT_MS);
    this.#patience = clock.timer(() => {
      this.#impatient = true;
      changed();
    }, CHECK_MS);
    const done = (answer: KnownPorts): void => {
      this.#limit?.cancel();
      this.#patience?.cancel();
      this.#lookup = undefined;
      if (this.#closed) return;
      this.#answer = answer;
      changed();
    };
    lookup(controller.signal).then(
      (service) => done({ key, service }),
      (error: unknown) => done({ key, error }),
    );
  }

  /**
   * Reads the Service object again later. If only a person can fix the problem, such as a missing permission, it is checked less often.
   */
  #lookUpLater(how: 'soon' | 'now and then'): void {
    if (this.#closed || this.#retry !== undefined || this.#lookup !== undefined) return;
    const pauseMs = how === 'soon' ? this.#backoff.next() : this.#backoff.longest();
    this.#retry = this.#options.clock.timer(() => {
      this.#retry = undefined;
      if (this.#answer !== undefined) this.#lookUp(this.#answer.key);
    }, pauseMs);
  }

  #refuse(error: WrongTarget): void {
    // Somebody may add the port to the Service. No slice changes then, so the Service is read again from time to time.
    this.#lookUpLater('now and then');
    this.#settle(error);
  }

  #chose(name: string): string {
    this.#chosen = name;
    this.#settle(undefined);
    return name;
  }

  #settled<T>(name: T): T {
    this.#settle(undefined);
    return name;
  }

  #settle(error: ResolveError | undefined): void {
    if (this.#closed || this.#error?.message === error?.message) return;
    this.#error = error;
    this.#options.failed(error);
  }
}

function isRefusal(error: unknown): boolean {
  return error instanceof ApiFailure && (error.kind === 'forbidden' || error.kind === 'missing');
}
