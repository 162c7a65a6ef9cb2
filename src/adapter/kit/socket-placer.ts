import type { Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import type { Balancer } from '../../balancer/balancer.js';
import { type BalancingOptions, balancerDefaults } from '../../balancer/balancer-options.js';
import type { Lease } from '../../call/lease.js';
import { hostPort } from '../../endpoint/address.js';
import type { Endpoint } from '../../endpoint/endpoint.js';
import { type Outcome, outcomes } from '../../endpoint/outcome.js';
import { inFlight } from '../../load/in-flight.js';
import { shortestExpectedDelay } from '../../picker/least-loaded.js';
import { Placements } from '../../placement/placements.js';
import {
  type ConnectionLeaving,
  type PlacingOptions,
  placingTable,
  resolvePlacingOptions,
} from '../../placement/placing-options.js';
import { resolvePoolOptions } from '../../pool/pool-options.js';
import type { Transport } from '../../pool/transport.js';
import { checkFunction, checkKeys, optionError } from '../../runtime/check.js';
import { type Clock, systemClock } from '../../runtime/clock.js';
import { Closing } from '../../runtime/closing.js';
import type { Filled } from '../../runtime/complete.js';
import { anyOption, checkedOption, functionOption, type OptionTable, optionTable } from '../../runtime/options.js';
import { ownProperties } from '../../runtime/own-properties.js';
import { systemRng } from '../../runtime/random32.js';
import {
  ChosenEndpoint,
  connectThrough,
  Dial,
  type DialledConnection,
  type DialSettings,
  type Opening,
} from './dial.js';
import { openSocket } from './open-socket.js';
import { type ServiceName, serviceBalancer } from './service-balancer.js';
import { checkTlsOptions } from './tls-options.js';

/** Options of a client whose connections stay open for long: those of its balancer, how its connections leave a pod, and TLS. */
export interface SocketPlacerOptions extends BalancingOptions, PlacingOptions<Socket> {
  /**
   * Options for Node's `tls.connect`; without them connections are plain TCP. The certificate must name the Service, not the pod.
   * @defaultValue none
   */
  readonly tls?: ConnectionOptions | undefined;
}

type SocketPlacerSettings = (typeof placingTable)['defaults'] & Pick<SocketPlacerOptions, 'tls'>;

export const socketPlacerTable: OptionTable<SocketPlacerSettings> = optionTable('options', {
  ...placingTable.options,
  tls: checkedOption<ConnectionOptions | undefined>(undefined, (name, value) => checkTlsOptions(name, value)),
});

/** Settings for one connection, which override the options of the client that opens it. */
export interface PlaceOptions {
  /** Stops the waiting and dialing; `connect` rejects with the signal's reason. @defaultValue none */
  readonly signal?: AbortSignal | undefined;
  /**
   * The key that a hash picker hashes: connections with equal keys go to the same pod. @defaultValue none @see
   * docs/reference/pickers.md#hash
   */
  readonly key?: string | undefined;
  /** Called when this connection should leave its pod, instead of the client's `onLeaving`. @defaultValue the client's `onLeaving` */
  readonly onLeaving?: ((leaving: ConnectionLeaving, socket: Socket) => void) | undefined;
  /**
   * Closes this connection when it has not left in time, with its protocol's own goodbye. A socket that is still open 5 s later is
   * destroyed. @defaultValue the client's `finish`, else `socket.end()`
   */
  readonly finish?: ((socket: Socket) => void) | undefined;
}

export const placeTable: OptionTable<Filled<PlaceOptions, keyof PlaceOptions>> = optionTable('connect', {
  signal: anyOption<AbortSignal>(),
  key: anyOption<string>(),
  onLeaving: functionOption<NonNullable<PlaceOptions['onLeaving']>>(),
  finish: functionOption<NonNullable<PlaceOptions['finish']>>(),
});

/** How an adapter asks a connection to leave, and how it closes that connection. */
export interface HeldSocket {
  /** Asks the application to let the connection leave. Returns whether the application listens for that. */
  leave(leaving: ConnectionLeaving, socket: Socket): boolean;
  /** Closes the connection with its protocol's own goodbye. */
  finish(socket: Socket): void;
}

/**
 * Opens long-lived connections to the pods of a Service. Each goes to the endpoint with the fewest connections, and leaves when
 * `Placements` decides so. Only connections in use are open: an endpoint counts as ready until a dial to it fails, and then again after a
 * test connection succeeds.
 */
export class SocketPlacer {
  /**
   * The client's balancer, for its state and control: `ready()`, `snapshot()`. A lease of this balancer only chooses an endpoint; it opens
   * no connection.
   */
  readonly balancer: Balancer<ChosenEndpoint>;
  readonly #placements: Placements;
  #service!: ServiceName;
  readonly #tls: ConnectionOptions | undefined;
  readonly #settings: DialSettings;
  readonly #onLeaving: PlacingOptions<Socket>['onLeaving'];
  readonly #closing: Closing;

  /** Throws EVENKEEL_OPTION. @param ownNames The names of the adapter's own options, besides those of `SocketPlacerOptions`. */
  constructor(target: unknown, options: SocketPlacerOptions, ownNames: readonly string[] = []) {
    if (typeof options !== 'object' || options === null) throw optionError('options', 'an object', options);
    const own = ownProperties(options);
    // This picker chooses the endpoint with exactly the fewest connections by weight, the new one included. `leastLoaded` may be off by
    // half a connection.
    const {
      clock = systemClock,
      rng = systemRng,
      picker = shortestExpectedDelay(),
      load = inFlight(),
      onLeaving,
      limit,
      waitWhileRefused,
      waitTimeoutMs = balancerDefaults.waitTimeoutMs,
    } = own;
    const pool = ownProperties(own.pool ?? {});
    const { connectTimeoutMs, drainTimeoutMs } = resolvePoolOptions(pool);
    const placing = resolvePlacingOptions(options, drainTimeoutMs);
    this.#tls = socketPlacerTable.resolveOwn(options).tls;
    this.#onLeaving = onLeaving;
    if (pool.maxConnectionAgeMs !== undefined) {
      throw optionError('pool.maxConnectionAgeMs', 'left out: no connection is replaced', pool.maxConnectionAgeMs);
    }
    if (limit !== undefined) {
      throw optionError('limit', 'left out: connections that stay open have no latency to go by', limit);
    }
    if (waitWhileRefused === false) {
      throw optionError('waitWhileRefused', 'left out: a connection is dialed for each caller', false);
    }
    // The balancer's own connections hold no socket here (see `ChosenEndpoint`), so replacing them by age would be pointless.
    const ageless = { ...pool, maxConnectionAgeMs: Number.POSITIVE_INFINITY };
    const all = { ...options, picker, load, pool: ageless };
    this.balancer = serviceBalancer<ChosenEndpoint>(
      target,
      all,
      [...socketPlacerTable.names, ...ownNames],
      (service) => {
        this.#service = service;
        return this.#transport();
      },
    );
    const placements = new Placements({ balancer: this.balancer, clock, rng, options: placing });
    this.#placements = placements;
    this.#settings = { placements, clock, connectTimeoutMs, waitTimeoutMs };
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

  /** The Service's name and port, for TLS and for protocols in which a client names the server it wants. */
  get service(): ServiceName {
    return this.#service;
  }

  /** The clock from the options, which adapters use for their own timers. */
  get clock(): Clock {
    return this.#settings.clock;
  }

  /** True from the first call of `close` on, also after everything has closed. Adapters use it to dial no more. */
  get isClosing(): boolean {
    return this.#closing.hasBegun;
  }

  /**
   * Opens a socket to a pod. Rejects as `balancer.acquire` does, or with the reason of the signal. With `held`, the adapter handles leaving
   * and closing, and the options `onLeaving` and `finish` are not used.
   */
  async connect(options: PlaceOptions = {}, held?: HeldSocket): Promise<Socket> {
    const { onLeaving = this.#onLeaving, finish, key, signal } = placeTable.resolve(options);
    if (onLeaving !== undefined) checkFunction('onLeaving', onLeaving);
    const holder = held ?? new SocketHolder(onLeaving, finish);
    return this.place(
      {
        open: (dial) => this.#openSocket(dial.endpoint, dial.signal),
        opened: (socket, dial) => new PlacedSocket(socket, holder, dial),
      },
      { key, signal },
    );
  }

  /** Opens a connection of another kind than a socket. Rejects as `connect` does. */
  place<T>(opening: Opening<T>, { key, signal }: Pick<PlaceOptions, 'key' | 'signal'> = {}): Promise<T> {
    const { host, port } = this.#service;
    const service = port === undefined ? host : hostPort(host, port);
    return connectThrough({ balancer: this.balancer, service, settings: this.#settings, opening, key, signal });
  }

  /** Returns a dial to the endpoint of `lease`, for libraries that dial and redial by themselves. The lease must come from `balancer`. */
  dial(lease: Lease<ChosenEndpoint>): Dial {
    return new Dial(lease, this.#settings);
  }

  /** Closes the client as `balancer.close` does: connections may stay for `pool.drainTimeoutMs`, or until `signal` aborts. */
  async close(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    checkKeys('close', options, ['signal']);
    return this.#closing.close(options.signal);
  }

  #transport(): Transport<ChosenEndpoint> {
    return {
      connect: async (endpoint, signal, failures = 0) => {
        // After a failed dial, a test connection shows whether the endpoint accepts again. The balancer limits the time for this.
        if (failures > 0) (await this.#openSocket(endpoint, signal)).on('error', () => {}).destroy();
        signal.throwIfAborted();
        return new ChosenEndpoint().connection;
      },
    };
  }

  #openSocket(endpoint: Endpoint, signal: AbortSignal): Promise<Socket> {
    const tls = this.#tls;
    return openSocket(endpoint, signal, tls === undefined ? {} : { host: this.#service.host, tls });
  }
}

/** Calls the application's functions `onLeaving` and `finish` for one connection. */
class SocketHolder implements HeldSocket {
  readonly #onLeaving: PlaceOptions['onLeaving'];
  readonly #finish: PlaceOptions['finish'];

  constructor(onLeaving: PlaceOptions['onLeaving'], finish: PlaceOptions['finish']) {
    this.#onLeaving = onLeaving;
    this.#finish = finish;
  }

  leave(leaving: ConnectionLeaving, socket: Socket): boolean {
    const onLeaving = this.#onLeaving;
    onLeaving?.(leaving, socket);
    return onLeaving !== undefined;
  }

  finish(socket: Socket): void {
    const finish = this.#finish;
    if (finish === undefined) socket.end();
    else finish(socket);
  }
}

/** The property of a socket that holds its placed connection. */
const placedAs = Symbol('evenkeel.placedAs');

interface Marked {
  [placedAs]?: PlacedSocket;
}

/**
 * Reports what a server's response on `socket` says about the endpoint. Does nothing for a socket that no `SocketPlacer` opened. Without a
 * report, the way in which the socket ends decides.
 */
export function answeredOn(socket: Socket, outcome: Outcome): void {
  const placed = (socket as Marked)[placedAs];
  if (placed !== undefined) placed.outcome = outcome;
}

/**
 * An open socket that its user works with. A process may have tens of thousands of them, so they share the three listener functions below.
 */
class PlacedSocket implements DialledConnection {
  outcome: Outcome | undefined = undefined;
  failure: Error | undefined = undefined;
  isHungUp = false;
  readonly dial: Dial;
  readonly #socket: Socket;
  readonly #held: HeldSocket;

  constructor(socket: Socket, held: HeldSocket, dial: Dial) {
    this.#socket = socket;
    this.#held = held;
    this.dial = dial;
    (socket as Marked)[placedAs] = this;
    // The user of the socket handles its errors; this listener only records the first one.
    socket.prependListener('error', failed);
    socket.prependListener('end', hungUp);
    socket.on('close', closed);
  }

  leave(leaving: ConnectionLeaving): boolean {
    return this.#held.leave(leaving, this.#socket);
  }

  finish(): void {
    this.#held.finish(this.#socket);
  }

  cut(): void {
    this.#socket.destroy();
  }
}

function failed(this: Socket, error: Error): void {
  const placed = (this as Marked)[placedAs];
  if (placed !== undefined) placed.failure ??= error;
}

/**
 * The server ended this socket. If it did so before it sent a byte, the endpoint drops its clients: it would have the fewest connections,
 * and would get every client that reconnects, if that did not count as a failure.
 */
function hungUp(this: Socket): void {
  const placed = (this as Marked)[placedAs];
  if (placed !== undefined) placed.isHungUp = this.bytesRead === 0 && !this.writableEnded;
}

function closed(this: Socket): void {
  const placed = (this as Marked)[placedAs];
  if (placed === undefined) return;
  const { dial, failure, outcome, isHungUp } = placed;
  dial.ended(failure, outcome ?? (isHungUp && dial.isUnproven ? outcomes.reset : undefined));
}
