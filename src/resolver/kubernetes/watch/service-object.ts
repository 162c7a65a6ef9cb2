import { asError, ResolveError } from '../../../errors.js';
import type { Clock, Timer } from '../../../runtime/clock.js';
import { deadline } from '../../../runtime/deadline.js';
import type { Rng } from '../../../runtime/rng.js';
import { WrongTarget } from '../../wrong-target.js';
import { ApiFailure } from '../api/api-failure.js';
import type { EndpointSlice } from '../slices/endpoint-slice.js';
import {
  ambiguousPort,
  isHeadless,
  nameOfPort,
  noSuchPort,
  portNames,
  type ServiceFacts,
} from '../slices/service-ports.js';
import { WatchBackoff } from './watch-backoff.js';

const READ_TIMEOUT_MS = 30_000;
/** How long the Service object is waited for where the slices alone would do, in ms. */
const PATIENCE_MS = 1_000;

/** What a `ServiceObject` needs. */
export interface ServiceObjectOptions {
  /** Reads the Service object from the API server. */
  readonly read: (signal: AbortSignal) => Promise<ServiceFacts>;
  readonly clock: Clock;
  readonly rng: Rng;
  /** Called when `about` may return something else than before. */
  readonly changed: () => void;
}

/** What is known about a Service besides its slices. */
export interface ServiceKnowledge {
  /** What the object said when it was read last. A failure that may pass keeps it; a refusal and a missing Service do not. */
  readonly facts: ServiceFacts | undefined;
  /** Whether the object was read, or could not be read, since the slices have their present port names. */
  readonly isCurrent: boolean;
  /** Why the object could not be read since then. */
  readonly failure: unknown;
  /** Whether the API server let us wait for the object for more than a second. */
  readonly isOverdue: boolean;
}

/**
 * Reads the Service object itself: what its port numbers mean, which rules it sets, and whether it exists. It is read with each complete
 * list, when the slices show other port names, and from time to time while something is wrong. All readers of a Service share it.
 */
export class ServiceObject {
  readonly #options: ServiceObjectOptions;
  readonly #backoff: WatchBackoff;
  #facts: ServiceFacts | undefined;
  #failure: unknown;
  /** The port names that the slices show, as one text. */
  #shown = '';
  #isCurrent = false;
  #reading: AbortController | undefined;
  #limit: Timer | undefined;
  #patience: Timer | undefined;
  #retry: Timer | undefined;
  #isOverdue = false;
  #isClosed = false;

  constructor(options: ServiceObjectOptions) {
    this.#options = options;
    this.#backoff = new WatchBackoff(options.clock, options.rng);
  }

  /** What is known now. */
  get known(): ServiceKnowledge {
    const isCurrent = this.#isCurrent;
    return {
      facts: this.#facts,
      isCurrent,
      failure: isCurrent ? this.#failure : undefined,
      isOverdue: this.#isOverdue,
    };
  }

  /** Says which port names the slices show now. If they change, the object may have changed, or may be another one with the same name. */
  show(names: readonly string[]): void {
    const shown = JSON.stringify(names);
    if (this.#shown === shown) return;
    this.#shown = shown;
    this.#isCurrent = false;
  }

  /** A complete list has arrived, so what was read before may be old. */
  listed(): void {
    if (this.#facts !== undefined || this.#failure !== undefined) this.#read();
  }

  /** Reads the object unless that was done since the slices show their present port names. */
  want(): void {
    if (!this.#isCurrent) this.#read();
  }

  /** Reads the object again in 30 to 60 s: a person may mend what is wrong, and no slice changes then. */
  again(): void {
    this.#readIn(() => this.#backoff.longest());
  }

  close(): void {
    this.#isClosed = true;
    this.#retry?.cancel();
    this.#patience?.cancel();
    this.#limit?.cancel();
    this.#reading?.abort(new Error('closed'));
  }

  /** Reads the object now. There is only one request at a time. */
  #read(): void {
    if (this.#isClosed || this.#reading !== undefined) return;
    const { clock, read, changed } = this.#options;
    this.#retry?.cancel();
    this.#retry = undefined;
    const shown = this.#shown;
    const controller = new AbortController();
    this.#reading = controller;
    this.#limit = deadline(clock, () => controller.abort(new Error('no answer within 30 s')), READ_TIMEOUT_MS);
    this.#patience = clock.timer(() => {
      this.#isOverdue = true;
      changed();
    }, PATIENCE_MS);
    const done = (facts: ServiceFacts | undefined, failure: unknown): void => {
      this.#limit?.cancel();
      this.#patience?.cancel();
      this.#reading = undefined;
      if (this.#isClosed) return;
      this.#isCurrent = this.#shown === shown;
      this.#facts = facts;
      this.#failure = failure;
      changed();
    };
    read(controller.signal).then(
      (facts) => done(facts, undefined),
      (error: unknown) => {
        const isFinal = isRefusal(error);
        done(isFinal ? undefined : this.#facts, error);
        if (!isFinal) this.#readIn(() => this.#backoff.next());
      },
    );
  }

  #readIn(pauseMs: () => number): void {
    if (this.#isClosed || this.#retry !== undefined || this.#reading !== undefined) return;
    this.#retry = this.#options.clock.timer(() => {
      this.#retry = undefined;
      this.#read();
    }, pauseMs());
  }
}

/** The port that a target means. */
export interface PortChoice {
  /** The name of the port to use; undefined while it is unknown. */
  readonly name: string | undefined;
  /** The pods' port to use in place of a name: the number in the URL of a headless Service. */
  readonly podPort?: number;
  /** Whether the name is certain. The last certain one stays in use until something better is known. */
  readonly isCertain: boolean;
  /** Why no port can be chosen, or why the one that is used has no endpoints: a mistake, which somebody has to correct. */
  readonly error?: ResolveError;
  /** Why the port that is used has no endpoints, in words, although nothing is known to be wrong. */
  readonly emptyBecause?: string;
  /** Whether the answer of the Service object would decide. */
  readonly isOpen?: true;
}

/** A target's port, and the Service's name for messages, such as `shop/orders`. */
export interface WantedPort {
  /** The name of the port, the Service's port number, or undefined for the only port. */
  readonly port: string | number | undefined;
  readonly subject: string;
  /** The name that was chosen last and was certain. */
  readonly last: string | undefined;
}

/**
 * Finds the name of the port that the user means in the EndpointSlices of a Service. If the user gave a number, it is the Service's port
 * number, and its name is looked up in the Service object.
 */
export function portOf(wanted: WantedPort, slices: readonly EndpointSlice[], known: ServiceKnowledge): PortChoice {
  const { port, subject } = wanted;
  const names = portNames(slices);
  // Everybody else looks up the pods' addresses in DNS and dials this number, listed or not (S7, S11).
  if (typeof port === 'number' && isHeadless(slices, known.facts)) {
    return { name: '', podPort: port, isCertain: false };
  }
  // Without pods there is no port to choose from, and no reason to report a mistake yet. Pods without a TCP port are another matter: the
  // port may be UDP, or have a targetPort that no pod has.
  const hasPods = slices.some(({ members }) => members.length > 0);
  if (names.length === 0 && (port === undefined || !hasPods))
    return { name: typeof port === 'string' ? port : '', isCertain: false };
  if (typeof port === 'string') return byName(wanted, port, names, known);
  if (port !== undefined) return byNumber(wanted, port, names, known);
  if (names.length === 1) return { name: names[0], isCertain: false };
  const error = ambiguousPort(subject, port, names, 'nothing says which one');
  return { name: undefined, isCertain: false, error };
}

/**
 * Chooses a port by its name. If no slice has a port with that name, the set is empty; if the name looks like a typing error, an error
 * lists the existing names, too.
 */
function byName(
  { subject, last }: WantedPort,
  port: string,
  names: readonly string[],
  { facts, isCurrent, failure, isOverdue }: ServiceKnowledge,
): PortChoice {
  if (names.includes(port)) return { name: port, isCertain: true };
  const missing = `no EndpointSlice of ${subject} has a port named ${JSON.stringify(port)}; there is ${quoted(names)}`;
  if (last === port) return { name: port, isCertain: true, emptyBecause: missing };
  if (isCurrent && failure === undefined && facts !== undefined) {
    const isListed = facts.ports.some(({ name, protocol }) => name === port && protocol === 'TCP');
    const emptyBecause = `${missing}. The Service has the port: is its targetPort a port of the pods?`;
    if (isListed) return { name: port, isCertain: false, emptyBecause };
    return { name: port, isCertain: false, error: noSuchPort(subject, port, facts) };
  }
  if (!isCurrent && !isOverdue) return { name: undefined, isCertain: false, isOpen: true };
  const error = new WrongTarget('port', missing);
  return isCurrent ? { name: port, isCertain: false, error } : { name: port, isCertain: false, error, isOpen: true };
}

function byNumber(
  { subject, last }: WantedPort,
  port: number,
  names: readonly string[],
  { facts, isCurrent, failure, isOverdue }: ServiceKnowledge,
): PortChoice {
  const held = last !== undefined && (names.length === 0 || names.includes(last)) ? last : undefined;
  const open = isCurrent ? {} : ({ isOpen: true } as const);
  // An older answer about the Service is used until there is a new one.
  const name = facts === undefined ? undefined : nameOfPort(facts, port);
  if (name !== undefined && names.includes(name)) return { name, isCertain: true, ...open };
  if (isCurrent && failure === undefined && facts !== undefined) {
    // If the Service has the port, the pods do not have it yet, or have it under an older name.
    if (held !== undefined && name !== undefined) return { name: held, isCertain: false };
    if (name !== undefined) return { name, isCertain: false, error: noSlicePort(subject, port, name, names) };
    return { name: held, isCertain: false, error: noSuchPort(subject, port, facts) };
  }
  // If the slices can be read but not the Service, and the slices have a single port, that port is used, whatever number the user gave.
  const mayGuess = isCurrent || (facts === undefined && isOverdue);
  if (names.length === 1 && mayGuess) return { name: names[0], isCertain: true, ...open };
  if (!isCurrent) return { name: held, isCertain: false, isOpen: true };
  return { name: held, isCertain: false, error: unreadablePorts(subject, port, names, failure) };
}

function noSlicePort(subject: string, port: number, name: string, names: readonly string[]): WrongTarget {
  const message = `port ${port} of ${subject} is named ${JSON.stringify(name)}, and no EndpointSlice has a port of that name; there is ${quoted(names)}`;
  return new WrongTarget('port', message);
}

function quoted(names: readonly string[]): string {
  return names.map((name) => JSON.stringify(name)).join(', ') || 'none';
}

function unreadablePorts(subject: string, port: number, names: readonly string[], failure: unknown): ResolveError {
  if (isRefusal(failure) && names.length > 0) {
    const why = `its port table cannot be read without the verb get on services (${asError(failure).message})`;
    return ambiguousPort(subject, port, names, why, failure);
  }
  const message = `the port table of the Service ${subject} cannot be read: ${asError(failure).message}`;
  return new ResolveError(message, { permanent: isRefusal(failure), cause: failure });
}

/**
 * The error for a Service without slices that seems not to exist; undefined if it exists, or may. Without permission to read the Service
 * itself, a wrong name and a Service with nothing behind it look the same, and the error says so.
 */
export function absentService(subject: string, { failure }: ServiceKnowledge): WrongTarget | undefined {
  if (!isRefusal(failure)) return undefined;
  const [service, namespace] = subject.split('/').reverse();
  const message =
    failure.kind === 'missing'
      ? `there is no Service ${service} in ${namespace === undefined ? 'this namespace' : `the namespace ${namespace}`}`
      : `${namespace ?? 'this namespace'} has no EndpointSlice of a Service ${service}: it does not exist, or nothing is behind it; is the namespace right?`;
  return new WrongTarget('service', message, { cause: failure });
}

/** Whether the API server's answer was about the Service: it is not there, or may not be read. After any other failure it may be. */
function isRefusal(error: unknown): error is ApiFailure {
  return error instanceof ApiFailure && (error.kind === 'forbidden' || error.kind === 'missing');
}
