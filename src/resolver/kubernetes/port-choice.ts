import { asError, ResolveError } from '../../errors.js';
import type { Clock, Timer } from '../../runtime/clock.js';
import type { Rng } from '../../runtime/rng.js';
import { ApiFailure } from './api-failure.js';
import type { EndpointSlice } from './endpoint-slice.js';
import { ambiguousPort, portNames, type ServicePorts } from './service-ports.js';
import { WatchBackoff } from './watch-backoff.js';

const LOOKUP_TIMEOUT_MS = 30_000;

/** What a `PortChoice` is made of. */
export interface PortChoiceOptions {
  /** A port's name, the Service's port number, or undefined for the only one there is. */
  readonly port: string | number | undefined;
  /** For messages, such as `shop/orders`. */
  readonly subject: string;
  readonly lookup: (signal: AbortSignal) => Promise<ServicePorts>;
  readonly clock: Clock;
  readonly rng: Rng;
  /** The answer of `choose` may be another now. */
  readonly changed: () => void;
  /** No port can be chosen, and why; undefined when one can be again. */
  readonly failed: (error: ResolveError | undefined) => void;
}

/** From what the user calls a port to its name in the slices (S11). */
export class PortChoice {
  readonly #options: PortChoiceOptions;
  readonly #backoff: WatchBackoff;
  /** The Service's own table, and the port names the slices had when it was asked for. */
  #table: { readonly names: string; readonly ports: ServicePorts } | undefined;
  #lookup: AbortController | undefined;
  #retry: Timer | undefined;
  #error: ResolveError | undefined;
  #closed = false;

  constructor(options: PortChoiceOptions) {
    this.#options = options;
    this.#backoff = new WatchBackoff(options.clock, options.rng);
  }

  /** The name of the port to use, or undefined while that is not known; then `changed` or `failed` follows. */
  choose(slices: Iterable<EndpointSlice>): string | undefined {
    const { port, subject } = this.#options;
    if (typeof port === 'string') return port;
    const names = portNames(slices);
    if (names.length <= 1) {
      this.#settle(undefined);
      return names[0] ?? '';
    }
    if (port === undefined) {
      this.#settle(ambiguousPort(subject, port, names, 'nothing says which one'));
      return undefined;
    }
    const key = JSON.stringify(names);
    if (this.#table?.names !== key) this.#ask(key, names, port);
    const name = this.#table?.ports.get(port);
    if (name === undefined || !names.includes(name)) return undefined;
    this.#settle(undefined);
    return name;
  }

  close(): void {
    this.#closed = true;
    this.#retry?.cancel();
    this.#lookup?.abort(new Error('closed'));
  }

  /** Asks for the Service's table, one question at a time. */
  #ask(key: string, names: readonly string[], port: number): void {
    if (this.#closed || this.#lookup !== undefined || this.#retry !== undefined) return;
    const { clock, lookup, changed } = this.#options;
    const controller = new AbortController();
    this.#lookup = controller;
    const limit = clock.timer(() => controller.abort(new Error('no answer within 30 s')), LOOKUP_TIMEOUT_MS);
    const done = (use: () => void): void => {
      limit.cancel();
      this.#lookup = undefined;
      if (!this.#closed) use();
    };
    lookup(controller.signal).then(
      (ports) =>
        done(() => {
          const name = ports.get(port);
          if (name !== undefined && names.includes(name)) this.#table = { names: key, ports };
          else this.#failed(names, port, undefined, ports);
          changed();
        }),
      (error: unknown) => done(() => this.#failed(names, port, error, undefined)),
    );
  }

  #failed(names: readonly string[], port: number, error: unknown, ports: ServicePorts | undefined): void {
    const { subject, clock, changed } = this.#options;
    const refused = error instanceof ApiFailure && (error.kind === 'forbidden' || error.kind === 'missing');
    if (ports !== undefined) {
      const list = [...ports].map(([number, name]) => `${number} ${JSON.stringify(name)}`).join(', ') || 'none';
      this.#settle(
        new ResolveError(`the Service ${subject} has no TCP port ${port}; it has ${list}`, { permanent: true }),
      );
    } else if (refused) {
      const why = `its port table cannot be read without the verb get on services (${error.message})`;
      this.#settle(ambiguousPort(subject, port, names, why, error));
    } else {
      const message = `the port table of the Service ${subject} cannot be read: ${asError(error).message}`;
      this.#settle(new ResolveError(message, { cause: error }));
    }
    // What only a person can change is looked at again now and then.
    const pauseMs = refused || ports !== undefined ? this.#backoff.longest() : this.#backoff.next();
    this.#retry = clock.timer(() => {
      this.#retry = undefined;
      changed();
    }, pauseMs);
  }

  #settle(error: ResolveError | undefined): void {
    if (this.#closed || this.#error?.message === error?.message) return;
    this.#error = error;
    this.#options.failed(error);
  }
}
