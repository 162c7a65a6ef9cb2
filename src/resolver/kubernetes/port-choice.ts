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
 * How long the choice of a port waits for the Service object if the slices leave no choice, in ms: the Service could only reveal a mistake.
 */
const CHECK_MS = 1_000;

/** What a `PortChoice` needs. */
export interface PortChoiceOptions {
  /** The port that the user means: its name, the Service's port number, or undefined for the only port. */
  readonly port: string | number | undefined;
  /** The Service, for messages, such as `shop/orders`. */
  readonly subject: string;
  /** Reads the Service object from the API server. */
  readonly lookup: (signal: AbortSignal) => Promise<ServiceFacts>;
  readonly clock: Clock;
  readonly rng: Rng;
  /** The result of `choose` may have changed. */
  readonly changed: () => void;
  /** No port can be chosen, and why; called with undefined when one can be chosen again. */
  readonly failed: (error: ResolveError | undefined) => void;
}

/** The ports of the Service object, or why it could not be read. */
interface KnownPorts {
  /** The port names of the slices when the Service object was requested, as one text. */
  readonly key: string;
  readonly service?: ServiceFacts;
  readonly error?: unknown;
}

/**
 * Finds the name that the port of the user's options has in the slices. A number is the Service's port number and is looked up in the
 * Service object.
 */
export class PortChoice {
  readonly #options: PortChoiceOptions;
  readonly #backoff: WatchBackoff;
  #answer: KnownPorts | undefined;
  /** The name of the port that was chosen last: valid until something better is known. */
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

  /** The name of the port to use, or undefined while it is unknown; in that case `changed` or `failed` follows. */
  choose(slices: readonly EndpointSlice[]): string | undefined {
    const { port, subject } = this.#options;
    const names = portNames(slices);
    // Without pods there is no port to choose from, and nothing to be wrong about yet.
    if (names.length === 0) return this.#settled(typeof port === 'string' ? port : '');
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
   * Chooses a port by its name. A name that no slice has means an empty set; with an error that lists the names if it looks like a typing
   * error.
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
    // An older answer about the Service counts until there is a new one.
    const service = (answer ?? this.#answer)?.service;
    const held = this.#chosen !== undefined && names.includes(this.#chosen) ? this.#chosen : undefined;
    if (service !== undefined) {
      const name = nameOfPort(service, slices, port);
      if (name !== undefined && names.includes(name)) return this.#chose(name);
      if (!isCurrent) return held;
      // The Service has the port, but the pods do not have it, or not yet under its new name.
      if (name !== undefined) return this.#settled(held ?? name);
      this.#refuse(noSuchPort(subject, port, service));
      return held;
    }
    // If only slices can be read, their single port is the one that is meant, whatever its number.
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

  /** What the Service object says about the slices' current port names; undefined while it is being read. */
  #answerFor(names: readonly string[]): KnownPorts | undefined {
    const key = JSON.stringify(names);
    if (this.#answer?.key === key) return this.#answer;
    this.#lookUp(key);
    return undefined;
  }

  /** Reads the Service object to learn which port is meant, one request at a time. */
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

  /** Reads the Service object again later; what only a person can change is checked now and then. */
  #lookUpLater(how: 'soon' | 'now and then'): void {
    if (this.#closed || this.#retry !== undefined || this.#lookup !== undefined) return;
    const pauseMs = how === 'soon' ? this.#backoff.next() : this.#backoff.longest();
    this.#retry = this.#options.clock.timer(() => {
      this.#retry = undefined;
      if (this.#answer !== undefined) this.#lookUp(this.#answer.key);
    }, pauseMs);
  }

  #refuse(error: WrongTarget): void {
    // Someone may add that port to the Service, which changes no slice: the Service is read again now and then.
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
