import {
  type Balancer,
  createBalancer,
  type Endpoint,
  type Observer,
  type Stage,
  type StageContext,
  type StageFactory,
  standardStages,
  systemClock,
  systemRng,
  type Transport,
} from '../../index.js';
import { asError, balancingOptionNames, markLasting, notify, optionError, pickNames } from '../kit/index.js';
import { isLogInRefused, type ReadOwner, ReplicaRead } from './call.js';
import { type OpenClient, type Read, Replica } from './connection.js';
import { isIoredis, openIoredis, readIoredis } from './ioredis.js';
import { isNodeRedis, openNodeRedis, readNodeRedis } from './node-redis.js';
import {
  type FacadeParts,
  type RedisClient,
  type Replicas,
  type ReplicasOptions,
  type ReplicasSettings,
  replicasSettings,
} from './options.js';

/**
 * Lets the replicas behind a Service answer the reads of a Redis client. Reads are picked one by one over the replicas that are in
 * step with their primary; everything else goes where the client goes. Must be closed.
 *
 * @param primary A client of ioredis or node-redis for one server. It stays yours: nothing about it is changed, and its reconnecting is its own.
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

class ServiceReplicas<C extends RedisClient> implements Replicas<C>, ReadOwner {
  readonly client: C;
  readonly balancer: Balancer<Replica>;
  readonly fallsBack: boolean;
  readonly #connected = new Set<Replica>();
  #invalidate: () => void = () => {};

  constructor(primary: C, target: string, options: ReplicasOptions) {
    const settings = replicasSettings(target, options);
    this.fallsBack = settings.fallback === 'primary';
    const { clock = systemClock, rng = systemRng, observer = {} } = options;
    const library = libraryOf(primary);
    const open = library.open(primary, settings);
    this.balancer = createBalancer<Replica>({
      ...pickNames(options, balancingOptionNames),
      // What replicas say about themselves comes first: ejection and panic are about those that remain.
      stages: [this.#stage, ...(options.stages ?? standardStages())],
      resolver: options.resolver ?? target,
      transport: this.#transport({ open, clock, rng, observer, settings }),
    });
    const read = (what: Read): void => new ReplicaRead(this, what).begin();
    this.client = library.read(primary, { settings, read, close: (signal) => this.close({ signal }) });
  }

  close(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    return this.balancer.close(options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #transport({ open, clock, rng, observer, settings }: TransportParts): Transport<Replica> {
    const { probeIntervalMs } = settings;
    const changed = (): void => this.#invalidate();
    const warned = (error: Error): void => notify(observer, 'warned', { message: error.message, error });
    return {
      connect: async (endpoint: Endpoint, signal: AbortSignal) => {
        signal.throwIfAborted();
        const replica = new Replica({ endpoint, open, probeIntervalMs, clock, rng, changed, warned });
        const cut = (): void => void replica.close(AbortSignal.abort());
        signal.addEventListener('abort', cut, { once: true });
        try {
          await replica.connect();
          signal.throwIfAborted();
        } catch (cause) {
          cut();
          const error = signal.aborted ? asError(signal.reason) : asError(cause);
          throw isLogInRefused(error) ? markLasting(error) : error;
        } finally {
          signal.removeEventListener('abort', cut);
        }
        this.#connected.add(replica);
        this.#invalidate();
        void replica.closed.then(() => this.#connected.delete(replica));
        return replica;
      },
    };
  }

  /** Puts servers that may not be read from on standby. They stay connected. */
  get #stage(): StageFactory {
    return (context): Stage => {
      this.#invalidate = () => context.invalidate();
      return {
        apply: (set) => {
          const objected = new Set<string>();
          for (const replica of this.#connected) {
            if (replica.objection !== undefined) objected.add(replica.endpoint.key);
            tell(context, replica);
          }
          if (objected.size === 0) return set;
          return set.map((entry) => (objected.has(entry.endpoint.key) ? { ...entry, weight: 0 } : entry));
        },
        close: () => {
          this.#invalidate = () => {};
        },
      };
    };
  }
}

interface Library {
  open(primary: unknown, settings: ReplicasSettings): OpenClient;
  read<C extends object>(primary: C, parts: FacadeParts): C;
}

function libraryOf(primary: unknown): Library {
  if (isIoredis(primary)) return { open: openIoredis, read: readIoredis };
  if (isNodeRedis(primary)) return { open: openNodeRedis, read: readNodeRedis };
  throw optionError('primary', 'a client of ioredis or of node-redis 5 for one server (not a Cluster)', typeof primary);
}

interface TransportParts {
  readonly open: OpenClient;
  readonly clock: typeof systemClock;
  readonly rng: typeof systemRng;
  readonly observer: Observer;
  readonly settings: ReplicasSettings;
}

function tell({ observer }: StageContext, replica: Replica): void {
  const { endpoint, objection, told } = replica;
  if (objection === told) return;
  if (objection !== undefined)
    notify(observer, 'ejected', { endpoint, reason: objection, cause: 'server', durationMs: 0 });
  else notify(observer, 'restored', { endpoint, reason: `no longer: ${told}` });
  replica.told = objection;
}
