import type { Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { type AttemptedCall, Attempts } from '../../balancer/attempts.js';
import type { Balancer } from '../../balancer/balancer.js';
import type { BalancingOptions } from '../../balancer/balancer-options.js';
import type { Lease } from '../../balancer/lease.js';
import { Placements } from '../../balancer/placements.js';
import {
  type ConnectionLeaving,
  type PlacingOptions,
  placingOptionNames,
  resolvePlacingOptions,
} from '../../balancer/placing-options.js';
import { type Endpoint, endpointAddress } from '../../endpoint/endpoint.js';
import { type Outcome, outcomes } from '../../endpoint/outcome.js';
import { outcomeOfSystemError } from '../../endpoint/system-errors.js';
import { asError, EvenkeelError } from '../../errors.js';
import { inFlight } from '../../load/in-flight.js';
import { shortestExpectedDelay } from '../../picker/least-loaded.js';
import { type ResolvedPoolOptions, resolvePoolOptions } from '../../pool/pool-options.js';
import type { Transport } from '../../pool/transport.js';
import { offAbort, onAbort } from '../../runtime/abort-listeners.js';
import { checkFunction, checkKeys, optionError } from '../../runtime/check.js';
import { type Clock, systemClock } from '../../runtime/clock.js';
import { Closing } from '../../runtime/closing.js';
import { deadline } from '../../runtime/deadline.js';
import { systemRng } from '../../runtime/rng.js';
import { OpenConnection } from './connection.js';
import { openSocket } from './open-socket.js';
import { type ServiceName, serviceBalancer } from './service-balancer.js';

/** Options of a client whose connections live for hours: the balancer's, how they leave, and TLS. */
export interface SocketPlacerOptions extends BalancingOptions, PlacingOptions<Socket> {
  /** Settings of Node's `tls.connect`; without them connections are plain. @defaultValue none */
  readonly tls?: ConnectionOptions | undefined;
}

/** Names of `SocketPlacerOptions` that are not those of every balancer. */
export const socketPlacerOptionNames: readonly (keyof SocketPlacerOptions)[] = Object.freeze([
  ...placingOptionNames,
  'tls',
] as const);

/** What one connection may be opened with. */
export interface PlaceOptions {
  /** Ends the waiting and the dialling; `connect` rejects with its reason. @defaultValue none */
  readonly signal?: AbortSignal | undefined;
  /** For hash pickers: connections with one key go to one pod. @defaultValue none */
  readonly key?: string | undefined;
  /** As the option of the same name, for this connection. @defaultValue that option */
  readonly onLeaving?: ((leaving: ConnectionLeaving, socket: Socket) => void) | undefined;
  /**
   * Closes it as the protocol does, when it has not left in time; whatever is still open 5 s later is destroyed.
   * @defaultValue `socket.end()`
   */
  readonly finish?: ((socket: Socket) => void) | undefined;
}

/** Names of `PlaceOptions`. */
export const placeOptionNames: readonly (keyof PlaceOptions)[] = Object.freeze([
  'signal',
  'key',
  'onLeaving',
  'finish',
] as const);

/** How an adapter's connection hears that it should leave, and closes. */
export interface HeldSocket {
  /** Tells the application. Returns whether it listens. */
  leave(leaving: ConnectionLeaving, socket: Socket): boolean;
  /** Closes as the protocol does. */
  finish(socket: Socket): void;
}

/** What a lease on an endpoint gives. Nothing is open because of it; it ends when a dial fails. */
export class Site {
  readonly connection: OpenConnection<Site>;

  constructor() {
    const ended = (): void => this.connection.ended();
    this.connection = new OpenConnection<Site>({ handle: this, finish: ended, cut: ended });
  }
}

/**
 * Dials the pods of a Service for connections that live for hours: each goes to the endpoint with the fewest, and leaves as
 * `Placements` says. No connection is kept besides those that are used: an endpoint counts as ready until a dial fails. Then
 * it gets no connection until one that is opened for that alone succeeds.
 */
export class SocketPlacer {
  readonly balancer: Balancer<Site>;
  readonly #placements: Placements;
  #service!: ServiceName;
  readonly #tls: ConnectionOptions | undefined;
  readonly #pool: ResolvedPoolOptions;
  readonly #clock: Clock;
  readonly #onLeaving: PlacingOptions<Socket>['onLeaving'];
  readonly #closing: Closing;

  /** Throws EVENKEEL_OPTION. `ownNames`: options beside those of `SocketPlacerOptions`. */
  constructor(target: unknown, options: SocketPlacerOptions, ownNames: readonly string[] = []) {
    if (typeof options !== 'object' || options === null) throw optionError('options', 'an object', options);
    // Exactly the fewest by weight, with the one to come. With `leastLoaded` a turn is worth half a connection.
    const {
      clock = systemClock,
      rng = systemRng,
      tls,
      picker = shortestExpectedDelay(),
      load = inFlight(),
      pool = {},
    } = options;
    this.#pool = resolvePoolOptions(pool);
    const placing = resolvePlacingOptions(options, this.#pool.drainTimeoutMs);
    if (tls !== undefined && (typeof tls !== 'object' || tls === null)) {
      throw optionError('tls', 'an object as for tls.connect', tls);
    }
    this.#tls = tls;
    this.#clock = clock;
    this.#onLeaving = options.onLeaving;
    if (pool.maxConnectionAgeMs !== undefined) {
      throw optionError('pool.maxConnectionAgeMs', 'left out: no connection is replaced', pool.maxConnectionAgeMs);
    }
    if (options.limit !== undefined) {
      throw optionError('limit', 'left out: connections that stay open have no latency to go by', options.limit);
    }
    // What counts as a connection here is none, and has no age.
    const ageless = { ...pool, maxConnectionAgeMs: Number.POSITIVE_INFINITY };
    const all = { ...options, picker, load, pool: ageless };
    this.balancer = serviceBalancer<Site>(target, all, [...socketPlacerOptionNames, ...ownNames], (service) => {
      this.#service = service;
      return this.#transport();
    });
    this.#placements = new Placements({ balancer: this.balancer, clock, rng, options: placing });
    this.#closing = new Closing(
      async () => {
        this.#placements.close();
        await this.balancer.close();
      },
      () => {
        this.#placements.cut();
        void this.balancer.close({ signal: AbortSignal.abort() });
      },
    );
  }

  get service(): ServiceName {
    return this.#service;
  }

  /**
   * Opens a connection to a pod. Rejects as `balancer.acquire` does, or with the reason of the signal. `held` takes the place of
   * the options `onLeaving` and `finish`.
   */
  connect(options: PlaceOptions = {}, held?: HeldSocket): Promise<Socket> {
    return new Promise((resolve, reject) => {
      checkKeys('connect', options, placeOptionNames);
      const { onLeaving = this.#onLeaving, finish, key, signal } = options;
      if (onLeaving !== undefined) checkFunction('onLeaving', onLeaving);
      if (finish !== undefined) checkFunction('finish', finish);
      const holder = held ?? {
        leave: (leaving, socket) => {
          onLeaving?.(leaving, socket);
          return onLeaving !== undefined;
        },
        finish: finish ?? ((socket) => void socket.end()),
      };
      new Dial({
        balancer: this.balancer,
        open: (lease, callers) => this.#open(lease, callers),
        opened: (dialled, socket) => {
          this.#hold(dialled, socket, holder);
          resolve(socket);
        },
        reject,
        key,
        signal,
      }).begin();
    });
  }

  /** As `balancer.close`: connections may stay for `pool.drainTimeoutMs`, or until `signal` aborts. */
  async close(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    checkKeys('close', options, ['signal']);
    return this.#closing.close(options.signal);
  }

  #transport(): Transport<Site> {
    return {
      connect: async (endpoint, signal, failures = 0) => {
        // The balancer's own time limit holds for this one.
        if (failures > 0) (await this.#openSocket(endpoint, signal)).on('error', () => {}).destroy();
        signal.throwIfAborted();
        return new Site().connection;
      },
    };
  }

  #openSocket(endpoint: Endpoint, signal: AbortSignal): Promise<Socket> {
    const tls = this.#tls;
    return openSocket(endpoint, signal, tls === undefined ? {} : { host: this.#service.host, tls });
  }

  async #open({ endpoint, leaving }: Lease<Site>, callers: AbortSignal | undefined): Promise<Socket> {
    const { connectTimeoutMs } = this.#pool;
    const address = endpointAddress(endpoint);
    const limit = new AbortController();
    const given = (): void => limit.abort(callers?.reason);
    const left = (): void => limit.abort(new Error('it left while it was connected to'));
    const late = (): void => limit.abort(new Error(`it did not accept within ${connectTimeoutMs} ms`));
    const timer = deadline(this.#clock, late, connectTimeoutMs);
    timer.ref();
    onAbort(callers, given);
    onAbort(leaving, left);
    try {
      return await this.#openSocket(endpoint, limit.signal);
    } catch (cause) {
      if (callers?.aborted) throw cause;
      const message = `no connection to ${address}: ${asError(cause).message}`;
      throw new EvenkeelError('EVENKEEL_CONNECT', message, { cause, endpoint: address });
    } finally {
      timer.cancel();
      offAbort(callers, given);
      offAbort(leaving, left);
    }
  }

  #hold({ lease, attempts }: Dialled, socket: Socket, held: HeldSocket): void {
    const tookMs = this.#clock.now() - lease.startedMs;
    let failure: Error | undefined;
    let isOurs = false;
    const release = this.#placements.hold(lease, {
      leave: (leaving) => held.leave(leaving, socket),
      finish: () => {
        isOurs = true;
        held.finish(socket);
      },
      cut: () => {
        isOurs = true;
        socket.destroy();
      },
    });
    // The one who uses the socket has to handle its errors; this only looks.
    socket.prependListener('error', (error) => {
      failure ??= error;
    });
    socket.once('close', () => {
      release();
      const outcome = failure === undefined || isOurs ? outcomes.success : lost(failure);
      lease.end(outcome, tookMs);
      attempts.report(lease, { ...(failure !== undefined && { error: failure }) });
    });
  }
}

/** What its user destroys it with says nothing about the endpoint. */
function lost(error: Error): Outcome {
  return outcomeOfSystemError((error as NodeJS.ErrnoException).code) ?? outcomes.cancelled;
}

interface Dialled {
  readonly lease: Lease<Site>;
  readonly attempts: Attempts<Site>;
}

interface DialParts {
  readonly balancer: Balancer<Site>;
  readonly open: (lease: Lease<Site>, signal: AbortSignal | undefined) => Promise<Socket>;
  readonly opened: (dialled: Dialled, socket: Socket) => void;
  readonly reject: (error: unknown) => void;
  readonly key: string | undefined;
  readonly signal: AbortSignal | undefined;
}

/** One `connect` over the pods it tries. */
class Dial implements AttemptedCall<Site> {
  readonly signal: AbortSignal | undefined;
  readonly #parts: DialParts;
  readonly #attempts: Attempts<Site>;

  constructor(parts: DialParts) {
    this.#parts = parts;
    this.signal = parts.signal;
    this.#attempts = new Attempts(parts.balancer, this, parts.key);
  }

  begin(): void {
    if (this.signal?.aborted) this.fail(this.signal.reason);
    else if (!this.#attempts.begin()) this.#attempts.wait();
  }

  fail(error: unknown): void {
    this.#parts.reject(error);
  }

  send(lease: Lease<Site>): void {
    void this.#dial(lease);
  }

  async #dial(lease: Lease<Site>): Promise<void> {
    const { open, opened } = this.#parts;
    const attempts = this.#attempts;
    try {
      const socket = await open(lease, this.signal);
      // From now on its length says nothing about the endpoint.
      lease.progressed();
      attempts.conclude();
      opened({ lease, attempts }, socket);
    } catch (error) {
      if (this.signal?.aborted) {
        attempts.stop();
        attempts.end(outcomes.cancelled, { error });
        this.fail(error);
        return;
      }
      if (!lease.leaving.aborted) lease.handle.connection.ended(asError(error));
      // Nothing was sent: another pod is as good, at no cost. This one is left alone until it can be connected to.
      const failed = { outcome: outcomes.notConnected, error, idempotent: false, answered: false, untried: true };
      attempts.fail(failed);
    }
  }
}
