import {
  type Balancer,
  type Clock,
  combineObservers,
  createBalancer,
  type Observer,
  systemClock,
  systemRng,
} from '../../index.js';
import { type ServerSettings, type ServiceOptions, type ServiceSettings, serviceSettings } from './options.js';
import { type Events, tell } from './own-functions.js';
import { replicaLag, type ServerCheck, WritableServers } from './roles.js';
import type { MysqlServer } from './session.js';
import { MysqlTransport } from './transport.js';

/** A Service that a cluster follows: its servers, and the balancer over them. */
export interface Service extends Pick<ServiceSettings, 'waitTimeoutMs' | 'idempotent' | 'endTimeoutMs'> {
  readonly name: string;
  readonly balancer: Balancer<MysqlServer>;
  readonly transport: MysqlTransport;
  readonly settings: ServerSettings;
  readonly clock: Clock;
  readonly writable: boolean;
  /** Called when a caller has to wait for a connection. */
  readonly enqueued: () => void;
  /** Returns a random number in [0, 1). */
  readonly draw: () => number;
}

/**
 * Follows a Service. `events` gets the events of its servers' connections, and `observer` those of its subchannels. Throws EVENKEEL_OPTION
 * for invalid options.
 */
export function createService(name: string, options: ServiceOptions, events: Events, observer: Observer): Service {
  const { resolver, balancing, server: settings, lag, role, ...rest } = serviceSettings(name, options);
  const { clock = systemClock, rng = systemRng } = balancing;
  const writable = role === 'primary';
  const lagCheck = replicaLag(lag);
  const checks: readonly ServerCheck[] = [
    ...(writable ? [new WritableServers()] : []),
    ...(lagCheck ? [lagCheck] : []),
  ];
  const transport = new MysqlTransport({
    settings,
    clock,
    rng,
    events,
    opened: async (server, signal) => {
      for (const check of checks) await check.connected(server, signal);
    },
  });
  const balancer: Balancer<MysqlServer> = createBalancer<MysqlServer>({
    ...balancing,
    // The stages that judge servers by their own reports come first: ejection and panic only judge the servers that remain.
    ...(checks.length > 0 && { stages: [...checks.map(({ stage }) => stage), ...(balancing.stages ?? [])] }),
    resolver,
    transport,
    observer: balancing.observer === undefined ? observer : combineObservers([balancing.observer, observer]),
    pool: {
      // A server is drained without a timeout, because only the server knows how long a transaction may take.
      drainTimeoutMs: Number.POSITIVE_INFINITY,
      ...balancing.pool,
      // No maximum age for all of a server's connections at once: `SessionPool` replaces them one by one.
      maxConnectionAgeMs: Number.POSITIVE_INFINITY,
    },
  });
  return {
    ...rest,
    name,
    balancer,
    transport,
    settings,
    clock,
    writable,
    enqueued: () => tell(events, 'enqueue', undefined),
    draw: () => rng.next(),
  };
}
