import type { Outcome } from '../../../src/endpoint/outcome.js';
import type { Clock } from '../../../src/runtime/clock.js';
import { drawIndex, type Rng } from '../../../src/runtime/rng.js';
import type { SimulatedServer } from './server.js';
import type { OtherClient, PickedServer } from './world.js';

/** undici's default, in ms; the agent of Node.js gives up a second before the server's usual 5 s. */
const KEEP_ALIVE_MS = 4_000;

interface Connection {
  readonly server: SimulatedServer;
  busy: boolean;
  idleSinceMs: number;
  /** The pod leaves or the call broke off: it is not used again. */
  broken: boolean;
}

/**
 * What most programs have: HTTP/1.1 with keep-alive to the address of a Service. A connection carries one call at a time. A call takes the
 * first free connection, in the order in which they were opened, as undici's pool does; if none is free, a new one is opened, and
 * kube-proxy draws a pod for it at random. Connections that are idle for long are closed, and so are those to a pod that leaves.
 */
export class KeepAliveClient implements OtherClient {
  readonly #clock: Clock;
  readonly #rng: Rng;
  readonly #keepAliveMs: number;
  #servers: readonly SimulatedServer[] = [];
  #connections: Connection[] = [];

  constructor(clock: Clock, rng: Rng, keepAliveMs: number = KEEP_ALIVE_MS) {
    this.#clock = clock;
    this.#rng = rng;
    this.#keepAliveMs = keepAliveMs;
  }

  get connections(): number {
    return this.#connections.length;
  }

  list(servers: readonly SimulatedServer[]): void {
    this.#servers = servers;
    const listed = new Set(servers);
    for (const connection of this.#connections) if (!listed.has(connection.server)) connection.broken = true;
  }

  pick(): PickedServer | undefined {
    const nowMs = this.#clock.now();
    const isOver = ({ busy, broken, idleSinceMs }: Connection): boolean =>
      !busy && (broken || nowMs - idleSinceMs >= this.#keepAliveMs);
    this.#connections = this.#connections.filter((connection) => !isOver(connection));
    const connection = this.#connections.find(({ busy }) => !busy) ?? this.#open();
    if (connection === undefined) return undefined;
    connection.busy = true;
    return { handle: connection.server, end: (outcome: Outcome) => this.#end(connection, outcome) };
  }

  #open(): Connection | undefined {
    if (this.#servers.length === 0) return undefined;
    const server = this.#servers[drawIndex(this.#rng, this.#servers.length)] as SimulatedServer;
    const connection = { server, busy: true, idleSinceMs: 0, broken: false };
    this.#connections.push(connection);
    return connection;
  }

  #end(connection: Connection, outcome: Outcome): void {
    connection.busy = false;
    connection.idleSinceMs = this.#clock.now();
    // An answer leaves the connection as it was, an error status too.
    if (outcome.kind !== 'success' && !(outcome.kind === 'failure' && outcome.cause === 'status'))
      connection.broken = true;
  }
}
