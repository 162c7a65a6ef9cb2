import { isIP } from 'node:net';
import type { Pool } from 'mysql2';
import {
  type Balancer,
  type BalancingOptions,
  balancerDefaults,
  type Clock,
  combineObservers,
  createBalancer,
  EvenkeelError,
  type Observer,
  poolDefaults,
  type Resolver,
  type StageFactory,
  standardStages,
  staticEndpoints,
  systemClock,
  systemRng,
} from '../../../index.js';
import { balancingOptionNames, checkBalancingOptions, checkBoolean, checkString } from '../../kit/index.js';
import { type ReplicaLagOptions, replicaLag } from '../checks/replica-lag.js';
import { type Ask, writable } from '../checks/writable.js';
import {
  checkNames,
  hostOfTarget,
  type Mysql2ConnectionOptions,
  renamedOptionNames,
  resolveServerSettings,
  type ServerSettings,
  targetOfHost,
  withOwnNames,
} from '../options.js';
import { ServerTransport } from '../server/transport.js';
import { Changes } from './changes.js';
import { type Hosts, only } from './hosts.js';

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

/** What the cluster hears of a service. */
export interface ServiceEvents {
  readonly warn: (error: Error) => void;
  readonly opened: (pool: Pool) => void;
  readonly observer: BalancingOptions['observer'];
}

/** A Service that is followed: its servers, one mysql2 Pool each, and the balancer over them. */
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
  /** How long `end` waits for what runs, in ms. */
  readonly endTimeoutMs: number;
  /** Chance, from 0 to 1. */
  readonly draw: () => number;
}

/** Throws EVENKEEL_OPTION for options that do not fit. */
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
  const { warn, opened, observer } = events;
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
    // What servers say of themselves comes first: verdicts and panic are about those that remain.
    ...(own.length > 0 && { stages: [...own, ...(options.stages ?? standardStages())] }),
    resolver,
    transport,
    observer: observer === undefined ? watching : combineObservers([watching, observer]),
    pool: {
      // We do not limit the time of a transaction: the server decides.
      drainTimeoutMs: Number.POSITIVE_INFINITY,
      ...options.pool,
      // Connections are replaced one by one within a server's pool, never all of it.
      maxConnectionAgeMs: Number.POSITIVE_INFINITY,
    },
  });
  const waitTimeoutMs = options.waitTimeoutMs ?? balancerDefaults.waitTimeoutMs;
  // A caller who never gives a connection back must not keep a process from ending.
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
    endTimeoutMs,
    draw,
  };
}

/** Where the servers are, and what TLS knows them by. */
function whereabouts(options: ServiceOptions): {
  readonly resolver: Resolver | string;
  readonly host: string | undefined;
} {
  const { target, resolver, port } = options;
  const host = options.host === undefined ? undefined : checkString('host', options.host);
  if (target !== undefined && resolver !== undefined) {
    throw new EvenkeelError('EVENKEEL_OPTION', 'target and resolver say the same: give one of them');
  }
  const given = target ?? resolver;
  if (given === undefined) {
    if (host === undefined) {
      throw new EvenkeelError(
        'EVENKEEL_OPTION',
        'where are the servers? Give `target` (mysql-read.shop:3306), `resolver`, or `host` and `port`',
      );
    }
    return { resolver: resolverOf(targetOfHost(host, port), host, port ?? 3_306), host };
  }
  if (port !== undefined) {
    throw new EvenkeelError('EVENKEEL_OPTION', 'port goes with host alone: a target and a resolver have their own');
  }
  if (target !== undefined) checkString('target', target);
  if (typeof given !== 'string') return { resolver: given, host };
  const named = hostOfTarget(given);
  const [, number] = /:(\d+)$/.exec(given) ?? [];
  return { resolver: resolverOf(given, named, Number(number)), host: host ?? named };
}

/** An address is what it says; a name is a Service to be found. */
function resolverOf(target: string, host: string | undefined, port: number): Resolver | string {
  const isPlain = host !== undefined && !/^(kubernetes|dns|static):(?!\d+$)/.test(target.trim());
  if (!isPlain || !(port >= 1 && port <= 65_535)) return target;
  if (isIP(host) === 0 && !/(^|\.)localhost$/.test(host)) return target;
  return staticEndpoints([{ address: host, port }]);
}
