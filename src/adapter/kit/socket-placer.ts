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
import { systemRng } from '../../runtime/rng.js';
import { connectThrough, Dial, type DialledConnection, type DialSettings, type Opening, Site } from './dial.js';
import { openSocket } from './open-socket.js';
import { type ServiceName, serviceBalancer } from './service-balancer.js';

/** Options of a client with long-lived connections: the balancer's, how connections leave, and TLS. */
export interface SocketPlacerOptions extends BalancingOptions, PlacingOptions<Socket> {
  /**
   * Settings of Node's `tls.connect`; without them connections are plain. The certificate must name the Service, not the pod.
   * @defaultValue none
   */
  readonly tls?: ConnectionOptions | undefined;
}

type SocketPlacerSettings = (typeof placingTable)['defaults'] & Pick<SocketPlacerOptions, 'tls'>;

export const socketPlacerTable: OptionTable<SocketPlacerSettings> = optionTable('options', {
  ...placingTable.options,
  tls: checkedOption<ConnectionOptions | undefined>(undefined, (name, value) => {
    if (typeof value !== 'object' || value === null) throw optionError(name, 'an object as for tls.connect', value);
    // Sockets are opened with these TLS settings long after this, so the caller's object is copied.
    return { ...value };
  }),
});

/** What one connection does otherwise than the options of its connector say. */
export interface PlaceOptions {
  /** Stops waiting and dialing; `connect` rejects with its reason. @defaultValue none */
  readonly signal?: AbortSignal | undefined;
  /** For hash pickers: connections with the same key go to the same pod. @defaultValue none @see docs/reference/pickers.md#hash */
  readonly key?: string | undefined;
  /** The option `onLeaving` of the client, for this connection alone. @defaultValue that option */
  readonly onLeaving?: ((leaving: ConnectionLeaving, socket: Socket) => void) | undefined;
  /**
   * Closes a connection that has not left in time, as its protocol does; if it is still open 5 s later it is destroyed.
   * @defaultValue the connector's, else `socket.end()`
   */
  readonly finish?: ((socket: Socket) => void) | undefined;
}

export const placeTable: OptionTable<Filled<PlaceOptions, keyof PlaceOptions>> = optionTable('connect', {
  signal: anyOption<AbortSignal>(),
  key: anyOption<string>(),
  onLeaving: functionOption<NonNullable<PlaceOptions['onLeaving']>>(),
  finish: functionOption<NonNullable<PlaceOptions['finish']>>(),
});

/** How an adapter's connection is told to leave, and closed. */
export interface HeldSocket {
  /** Tells the application that the connection should leave. Returns whether the application listens. */
  leave(leaving: ConnectionLeaving, socket: Socket): boolean;
  /** Closes the connection as its protocol does. */
  finish(socket: Socket): void;
}

/**
 * Opens long-lived connections to the pods of a Service: each goes to the endpoint with the fewest, and leaves as `Placements` decides.
 * Only connections in use are kept: an endpoint counts as ready until a dial fails, and then again after a test connection succeeds.
 */
export class SocketPlacer {
  /**
   * State and control of the client's balancer: `ready()`, `snapshot()`. A lease of this balancer chooses an endpoint; nothing is open
   * because of it.
   */
  readonly balancer: Balancer<Site>;
  readonly #placements: Placements;
  #service!: ServiceName;
  readonly #tls: ConnectionOptions | undefined;
  readonly #settings: DialSettings;
  readonly #onLeaving: PlacingOptions<Socket>['onLeaving'];
  readonly #closing: Closing;

  /** Throws EVENKEEL_OPTION. @param ownNames Options besides those of `SocketPlacerOptions`. */
  constructor(target: unknown, options: SocketPlacerOptions, ownNames: readonly string[] = []) {
    if (typeof options !== 'object' || options === null) throw optionError('options', 'an object', options);
    // The picker finds the endpoint with exactly the fewest connections by weight, the new one counted. `leastLoaded` may be off by half a
    // connection.
    const {
      clock = systemClock,
      rng = systemRng,
      picker = shortestExpectedDelay(),
      load = inFlight(),
      pool = {},
    } = options;
    const { connectTimeoutMs, drainTimeoutMs } = resolvePoolOptions(pool);
    const placing = resolvePlacingOptions(options, drainTimeoutMs);
    this.#tls = socketPlacerTable.resolveOwn(options).tls;
    this.#onLeaving = options.onLeaving;
    if (pool.maxConnectionAgeMs !== undefined) {
      throw optionError('pool.maxConnectionAgeMs', 'left out: no connection is replaced', pool.maxConnectionAgeMs);
    }
    if (options.limit !== undefined) {
      throw optionError('limit', 'left out: connections that stay open have no latency to go by', options.limit);
    }
    if (options.waitWhileRefused === false) {
      throw optionError('waitWhileRefused', 'left out: a connection is dialed for each caller', false);
    }
    // What the balancer takes for connections are no real ones here, and have no age.
    const ageless = { ...pool, maxConnectionAgeMs: Number.POSITIVE_INFINITY };
    const all = { ...options, picker, load, pool: ageless };
    this.balancer = serviceBalancer<Site>(target, all, [...socketPlacerTable.names, ...ownNames], (service) => {
      this.#service = service;
      return this.#transport();
    });
    const placements = new Placements({ balancer: this.balancer, clock, rng, options: placing });
    this.#placements = placements;
    const { waitTimeoutMs = balancerDefaults.waitTimeoutMs } = options;
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

  /** The Service's name and port, for TLS and for what the protocol calls its host. */
  get service(): ServiceName {
    return this.#service;
  }

  /** The clock that the options set. */
  get clock(): Clock {
    return this.#settings.clock;
  }

  /** Whether `close` was called. */
  get isClosing(): boolean {
    return this.#closing.hasBegun;
  }

  /**
   * Opens a connection to a pod. Rejects as `balancer.acquire` does, or with the reason of the signal. `held` replaces
   * the options `onLeaving` and `finish`.
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

  /** Opens a connection of a kind other than a socket. Rejects as `connect` does. */
  place<T>(opening: Opening<T>, { key, signal }: Pick<PlaceOptions, 'key' | 'signal'> = {}): Promise<T> {
    const { host, port } = this.#service;
    const service = port === undefined ? host : hostPort(host, port);
    return connectThrough({ balancer: this.balancer, service, settings: this.#settings, opening, key, signal });
  }

  /** For libraries that dial and redial by themselves: dials with a lease of `balancer`. */
  dial(lease: Lease<Site>): Dial {
    return new Dial(lease, this.#settings);
  }

  /** As `balancer.close`: connections may stay for `pool.drainTimeoutMs`, or until `signal` aborts. */
  async close(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    checkKeys('close', options, ['signal']);
    return this.#closing.close(options.signal);
  }

  #transport(): Transport<Site> {
    return {
      connect: async (endpoint, signal, failures = 0) => {
        // The balancer itself limits the time for this.
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

/** Reports what the response on a socket says about its endpoint, if the socket was placed on one. @defaultValue what the socket shows */
export function answeredOn(socket: Socket, outcome: Outcome): void {
  const placed = (socket as Marked)[placedAs];
  if (placed !== undefined) placed.outcome = outcome;
}

/** An open socket in the hands of its user. There may be tens of thousands, so they share their listeners. */
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
    // The user of the socket handles its errors; this listener only watches.
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
 * The endpoint ended this socket. An endpoint that drops everybody has the fewest connections, and would get every client that reconnects.
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
