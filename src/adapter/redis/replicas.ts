import {
  type Balancer,
  createBalancer,
  type Endpoint,
  type Lease,
  outcomes,
  type Stage,
  type StageFactory,
  systemClock,
  systemRng,
  type Timer,
  type Transport,
} from '../../index.js';
import {
  type AttemptedCall,
  Attempts,
  asError,
  balancingTable,
  type CallFacts,
  type LogPosition,
  lagObjection,
  notify,
  optionKindError,
  ownProperties,
  pickNames,
  ReplicationLag,
  type ServerRank,
  ServerRanking,
} from '../kit/index.js';
import { ConnectedServers } from './connected-servers.js';
import { type OpenClient, type RunningRead, Server, type ServerParts } from './connection.js';
import { isIoredisClient, isNodeRedisClient } from './internals.js';
import { readIoredis } from './ioredis.js';
import { openIoredis } from './ioredis-client.js';
import { openNodeRedis, readNodeRedis } from './node-redis.js';
import {
  optionsAt,
  type RedisClient,
  type Replicas,
  type ReplicasOptions,
  type ReplicasSettings,
  replicasSettings,
} from './options.js';
import { verdictOf } from './outcome.js';
import type { Read, ReadAttempt, ViewParts } from './view.js';

/**
 * Lets the replicas behind a Service answer the reads of a Redis client. For each read, one of the replicas that are in step with their
 * primary is picked; all other commands stay on the client's own connection. Must be closed.
 *
 * @param primary A client of ioredis or node-redis for one server. It stays yours: evenkeel changes nothing about it, and it reconnects by
 * itself.
 * @param target The Service of the replicas: `redis-replicas.shop:6379`.
 * @throws EVENKEEL_OPTION for an invalid client, target or option. No secret is in any message.
 * @example
 * const replicas = createReplicas(new Redis({ host: 'redis.shop' }), 'redis-replicas.shop:6379');
 * const redis = replicas.client;
 * await redis.get('item:7'); // a replica
 */
export function createReplicas<C extends RedisClient>(
  primary: C,
  target: string,
  options: ReplicasOptions = {},
): Replicas<C> {
  return new ServiceReplicas(primary, target, options);
}

/** How long a connection attempt to the primary may take, in ms. The application's own client may wait longer. */
const PRIMARY_CONNECT_MS = 10_000;

class ServiceReplicas<C extends RedisClient> implements Replicas<C> {
  readonly client: C;
  readonly balancer: Balancer<Server>;
  readonly #settings: ReplicasSettings;
  readonly #open: (own: object) => OpenClient;
  readonly #parts: Omit<ServerParts, 'endpoint' | 'open'>;
  readonly #connected = new ConnectedServers<Server>(() => this.#invalidate());
  /** Measures how far replicas are behind; undefined if `maxLagMs` is not set. */
  readonly #lag: ReplicationLag | undefined;
  #primary: Server | undefined;
  #timer: Timer | undefined;
  #invalidate: () => void = () => {};
  #isOver = false;

  constructor(primary: C, target: string, options: ReplicasOptions) {
    const settings = replicasSettings(target, options);
    const { maxLagMs } = settings;
    const own = ownProperties(options);
    const { clock = systemClock, rng = systemRng, observer = {} } = own;
    const library = libraryOf(primary);
    this.#settings = settings;
    this.#parts = {
      clock,
      rng,
      probeIntervalMs: settings.probeIntervalMs,
      changed: () => this.#invalidate(),
      learned: (position, server) => this.#learned(position, server),
      warned: (error) => notify(observer, 'warned', { message: error.message, error }),
    };
    this.#open = (replica) => library.open(primary, settings, replica);
    this.#lag = Number.isFinite(maxLagMs) ? new ReplicationLag(maxLagMs, clock) : undefined;
    const fallsBack = settings.role === 'prefer-replica';
    this.client = library.read(primary, {
      settings,
      read: (what) => new ReplicaRead(this.balancer, what, fallsBack).begin(),
      close: (signal) => this.close({ signal }),
    });
    this.balancer = createBalancer<Server>({
      ...pickNames(own, balancingTable.names),
      // The stage that ranks replicas by what they report comes first: ejection and panic only judge the replicas that remain.
      stages: [this.#stage, ...(own.stages ?? [])],
      resolver: own.resolver ?? target,
      transport: this.#transport,
    });
    if (this.#lag !== undefined) this.#followPrimary(this.#lag);
  }

  close(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    return this.balancer.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  get #transport(): Transport<Server> {
    return {
      connect: async (endpoint: Endpoint, signal: AbortSignal) => {
        signal.throwIfAborted();
        const open = this.#open(await optionsAt(endpoint, this.#settings, signal));
        const server = new Server({ ...this.#parts, endpoint, open });
        await server.connect(signal);
        this.#connected.opened(endpoint.key, server);
        return server;
      },
    };
  }

  #learned(position: LogPosition, server: Server): void {
    const lag = this.#lag;
    if (lag === undefined) return;
    lag.reached(position);
    const isBehind = lag.isBehind(position);
    if (isBehind === server.isBehind) return;
    server.isBehind = isBehind;
    this.#invalidate();
  }

  /**
   * Queries the primary for its log position over a connection of evenkeel's own, because the application's connection may be in a
   * transaction or blocked.
   */
  #followPrimary(lag: ReplicationLag): void {
    const changed = (): void => lag.primaryReached(undefined);
    const learned = (position: LogPosition): void => lag.primaryReached(position);
    const primary = new Server({ ...this.#parts, changed, learned, endpoint: undefined, open: this.#open({}) });
    this.#primary = primary;
    const { clock, probeIntervalMs } = this.#parts;
    const limit = new AbortController();
    this.#timer = clock.timer(() => limit.abort(), PRIMARY_CONNECT_MS);
    const connected = primary.connect(limit.signal).finally(() => this.#timer?.cancel());
    const ended = connected.then(() => primary.closed).catch(asError);
    void ended.then(() => {
      lag.primaryReached(undefined);
      if (!this.#isOver) this.#timer = clock.timer(() => this.#followPrimary(lag), probeIntervalMs);
    });
  }

  /** A stage that ranks replicas by whether they may be read from, and by whether they are too far behind. */
  get #stage(): StageFactory {
    return ({ observer, invalidate }): Stage => {
      this.#invalidate = invalidate;
      const ranking = new ServerRanking({
        rankOf: ({ key }) => rankOf(this.#connected.get(key), this.#settings),
        observer,
        intervalMs: this.#settings.probeIntervalMs,
      });
      return {
        apply: (set) => ranking.apply(set),
        close: () => {
          this.#invalidate = () => {};
          this.#isOver = true;
          this.#timer?.cancel();
          void this.#primary?.close(AbortSignal.abort());
        },
      };
    };
  }
}

/** Ranks a replica. One that is behind is used only if there is no other replica and the primary may not answer reads. */
function rankOf(server: Server | undefined, { role, maxLagMs }: ReplicasSettings): ServerRank | undefined {
  if (server === undefined) return undefined;
  const { objection, isBehind } = server;
  if (objection !== undefined) return { rank: undefined, objection, isConnected: true };
  if (!isBehind) return { rank: 0, objection: undefined, isConnected: true };
  return { rank: role === 'prefer-replica' ? undefined : 1, objection: lagObjection(maxLagMs), isConnected: true };
}

interface Library {
  open(primary: unknown, settings: ReplicasSettings, own: object): OpenClient;
  read<C extends object>(primary: C, parts: ViewParts): C;
}

function libraryOf(primary: unknown): Library {
  if (isIoredisClient(primary)) return { open: openIoredis, read: readIoredis };
  if (isNodeRedisClient(primary)) return { open: openNodeRedis, read: readNodeRedis };
  throw optionKindError(
    'primary',
    'a client of ioredis, or of node-redis from 5 on, for one server (not a Cluster)',
    primary,
  );
}

/** How an attempt ends if its replica does not answer: like an attempt whose connection was cut. */
const silent = {
  outcome: outcomes.timeout,
  repeatAs: outcomes.reset,
  resend: 'first-free',
  idempotent: true,
  answered: false,
} as const;

/** One read of the application through all its attempts on replicas. */
class ReplicaRead implements AttemptedCall<Server>, ReadAttempt, RunningRead {
  /** How long the read may wait for a replica, in ms; undefined means the balancer's own limit. */
  readonly waitTimeoutMs: number | undefined;
  readonly #read: Read;
  /** Whether the primary answers the read if no replica can take it. */
  readonly #fallsBack: boolean;
  readonly #attempts: Attempts<Server>;
  #isWaiting = false;
  #hasBeenRepeated = false;
  sentMs = 0;

  constructor(balancer: Balancer<Server>, read: Read, fallsBack: boolean) {
    this.#read = read;
    this.#fallsBack = fallsBack;
    this.#attempts = new Attempts(balancer, this, undefined);
    this.waitTimeoutMs = fallsBack ? 0 : undefined;
  }

  begin(): void {
    if (this.#attempts.begin()) return;
    if (this.#fallsBack) {
      this.#attempts.stop();
      this.#read.sendToPrimary();
    } else this.#attempts.wait();
  }

  facts(): CallFacts {
    return { protocol: 'redis', method: 'read' };
  }

  send({ handle: server, startedMs }: Lease<Server>): void {
    this.sentMs = startedMs;
    server.callBegins(this);
    try {
      this.#read.send(server.client, this);
    } catch (error) {
      server.callEnds(this, false);
      throw error;
    }
  }

  answered(): void {
    this.#attempts.lease?.handle.callEnds(this, true);
    this.#attempts.end(outcomes.success);
  }

  /**
   * The replica has not answered in time. A read moves only once, because a read that is slow everywhere would occupy one replica after
   * another.
   */
  unanswered(): void {
    const server = this.#attempts.lease?.handle;
    if (server === undefined || this.#hasBeenRepeated) return;
    const failed = { ...silent, error: new Error('the replica does not answer') };
    const other = this.#attempts.other(failed);
    if (other === undefined) return;
    this.#hasBeenRepeated = true;
    server.callEnds(this, false);
    this.#attempts.move(failed, other);
  }

  /** The read may be repeated, and the retry budget has paid for that, but no replica can take it now. */
  waitBegan(): void {
    this.#isWaiting = true;
  }

  fail(error: unknown): void {
    if (this.#isWaiting && this.#fallsBack) this.#read.sendToPrimary();
    else this.#read.failed(asError(error));
  }

  failed(cause: unknown): void {
    // A Redis library may report a failure while the attempt is still being sent, so it is handled a moment later.
    queueMicrotask(() => this.#failed(asError(cause)));
  }

  #failed(error: Error): void {
    const server = this.#attempts.lease?.handle;
    const verdict = verdictOf(error);
    const { outcome, repeatAs = outcome, resend = 'paid' } = verdict ?? { outcome: outcomes.success };
    server?.callEnds(this, verdict === undefined || repeatAs === outcomes.notStarted);
    if (resend === 'free') server?.gone(error);
    // The server refused to serve reads, so it gets no read until its role has been queried again.
    else if (repeatAs === outcomes.notStarted) server?.suspected(error);
    const answered = verdict === undefined;
    this.#attempts.fail({ outcome, repeatAs, resend, error, idempotent: true, answered });
  }
}
