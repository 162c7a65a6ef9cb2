import type { Pool } from 'mysql2';
import {
  type Balancer,
  type BalancingOptions,
  balancerDefaults,
  type Clock,
  combineObservers,
  createBalancer,
  type Observer,
  poolDefaults,
  type StageFactory,
  standardStages,
  systemClock,
  systemRng,
} from '../../../index.js';
import { balancingOptionNames, checkBalancingOptions, checkBoolean } from '../../kit/index.js';
import { Changes } from '../changes.js';
import { type ReplicaLagOptions, replicaLag } from '../checks/replica-lag.js';
import { type Ask, writable } from '../checks/writable.js';
import { checkNames, type Mysql2ConnectionOptions, renamedOptionNames, withOwnNames } from '../options.js';
import { resolveServerSettings, type ServerSettings } from '../server/settings.js';
import { ServerTransport } from '../server/transport.js';
import { type Hosts, only } from './hosts.js';
import { whereabouts } from './whereabouts.js';

/** One Service of a cluster: where its servers are, with which credentials, and how they are chosen. */
export interface ServiceOptions extends BalancingOptions, Mysql2ConnectionOptions {
  /** Where the servers are, as a target string; instead of `resolver`, or of `host` and `port`. @defaultValue none */
  readonly target?: string | undefined;
  /**
   * Whether every statement that is not sent on a checked-out connection may run twice: for read-only services.
   * @defaultValue false
   */
  readonly idempotent?: boolean | undefined;
  /**
   * Whether the servers must accept writes. One that says it is read-only is on standby until it accepts them.
   * @defaultValue false
   */
  readonly writable?: boolean | undefined;
  /**
   * Which pods of the Service are used, if not all: a pattern for their names in which `*` matches anything, or a function.
   * `'mysql-0'` is the first of a StatefulSet. @defaultValue all
   */
  readonly hosts?: Hosts | undefined;
  /** How far behind its servers may be. @defaultValue not checked */
  readonly replicaLag?: ReplicaLagOptions | undefined;
}

const serviceOptionNames: readonly string[] = ['target', 'idempotent', 'writable', 'hosts', 'replicaLag'];

/** What the cluster hears from a service. */
export interface ServiceEvents {
  readonly warn: (error: Error) => void;
  readonly opened: (pool: Pool) => void;
  /** A caller has to wait for a connection. */
  readonly enqueued: () => void;
  readonly observer: BalancingOptions['observer'];
}

/** A Service that is followed: its servers, with one mysql2 Pool each, and the balancer over them. */
export interface Service {
  readonly name: string;
  readonly balancer: Balancer<Pool>;
  readonly transport: ServerTransport;
  readonly changes: Changes;
  readonly settings: ServerSettings;
  readonly clock: Clock;
  readonly waitTimeoutMs: number;
  readonly idempotent: boolean;
  readonly writable: boolean;
  /** To be called when a caller has to wait for a connection. */
  readonly enqueued: () => void;
  /** How long `end` waits for what runs, in ms. */
  readonly endTimeoutMs: number;
  /** Chance, from 0 to 1. */
  readonly draw: () => number;
}

/** Throws EVENKEEL_OPTION for invalid options. */
export function createService(name: string, given: ServiceOptions, events: ServiceEvents): Service {
  checkNames(name === '' ? 'options' : `services.${name}`, given, [
    ...serviceOptionNames,
    ...renamedOptionNames,
    ...balancingOptionNames,
  ]);
  const options = withOwnNames(given);
  const { resolver, host } = whereabouts(options);
  const settings = resolveServerSettings(options, host);
  const { clock = systemClock, rng = systemRng } = options;
  const { warn, opened, enqueued, observer } = events;
  const transport = new ServerTransport({ settings, clock, rng, warn, opened });
  const idempotent = checkBoolean('idempotent', options.idempotent, false);
  const mustWrite = checkBoolean('writable', options.writable, false);
  const ask: Ask = (endpoint, sql, signal) => transport.ask(endpoint, sql, signal);
  const own: StageFactory[] = [];
  if (options.hosts !== undefined) own.push(only(options.hosts));
  if (mustWrite) own.push(writable(ask));
  if (options.replicaLag !== undefined) own.push(replicaLag(options.replicaLag, ask));
  const balancing: Record<string, unknown> = {};
  for (const option of balancingOptionNames) {
    if (option !== 'resolver' && options[option] !== undefined) balancing[option] = options[option];
  }
  checkBalancingOptions(balancing);
  const changes = new Changes();
  const watching: Observer = {
    subchannelChanged: () => changes.happened(),
  };
  const balancer: Balancer<Pool> = createBalancer<Pool>({
    ...balancing,
    // What servers report about themselves comes first: ejection and panic are about those that remain.
    ...(own.length > 0 && { stages: [...own, ...(options.stages ?? standardStages())] }),
    resolver,
    transport,
    observer: observer === undefined ? watching : combineObservers([watching, observer]),
    pool: {
      // How long a transaction may take is up to the server.
      drainTimeoutMs: Number.POSITIVE_INFINITY,
      ...options.pool,
      // The connections in a server's pool are replaced one by one, never all together.
      maxConnectionAgeMs: Number.POSITIVE_INFINITY,
    },
  });
  const waitTimeoutMs = options.waitTimeoutMs ?? balancerDefaults.waitTimeoutMs;
  // A caller that never gives a connection back must not keep a process from ending.
  const endTimeoutMs = options.pool?.drainTimeoutMs ?? poolDefaults.drainTimeoutMs;
  const draw = (): number => rng.next();
  return {
    name,
    balancer,
    transport,
    changes,
    settings,
    clock,
    waitTimeoutMs,
    idempotent,
    writable: mustWrite,
    enqueued,
    endTimeoutMs,
    draw,
  };
}
