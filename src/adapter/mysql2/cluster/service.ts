import {
  type Balancer,
  type BalancingOptions,
  type Clock,
  combineObservers,
  createBalancer,
  type Observer,
  systemClock,
  systemRng,
} from '../../../index.js';
import {
  anyOption,
  balancerDefaults,
  balancingTable,
  booleanOption,
  checkBalancingOptions,
  choiceOption,
  type Filled,
  type OptionTable,
  optionTable,
  ownProperties,
  poolDefaults,
} from '../../kit/index.js';
import { checkNames, type Mysql2ConnectionOptions, renamedOptionNames, withOwnNames } from '../options.js';
import { type Events, tell } from '../own-functions.js';
import { lagTable, type ReplicaLagOptions, replicaLag, type ServerCheck, WritableServers } from '../roles.js';
import { resolveServerSettings, type ServerSettings } from '../server/settings.js';
import { type MysqlServer, MysqlTransport } from '../server/transport.js';
import { whereabouts } from './servers.js';

/** Options of one Service of a cluster: where its servers are, with which credentials to log in, and how a server is chosen. */
export interface ServiceOptions extends BalancingOptions, Mysql2ConnectionOptions, ReplicaLagOptions {
  /**
   * Where the servers are, as a target string; excludes `resolver`, and `host` with `port`. @defaultValue none
   * @see docs/reference/targets.md
   */
  readonly target?: string | undefined;
  /** Whether a statement may run twice, unless it is sent on a checked-out connection: for services that only read. @defaultValue false */
  readonly idempotent?: boolean | undefined;
  /**
   * Which servers get statements. `primary`: only a server whose latest answer was that it accepts writes. A server that reports to be
   * read-only is on standby until it accepts them; it is the primary then, and the sessions of a former primary that does not answer, or
   * still accepts writes, are cut. `any`: all servers, whose roles are not queried. @defaultValue 'any'
   * @see docs/guide/mysql.md#roles-one-primary-several-replicas
   */
  readonly role?: 'any' | 'primary' | undefined;
}

type OwnOptions = Pick<ServiceOptions, 'target' | 'idempotent' | 'role'>;

export const serviceTable: OptionTable<Filled<OwnOptions, 'target'>> = optionTable('options', {
  // The value is checked where servers are looked for.
  target: anyOption<string>(),
  idempotent: booleanOption(false),
  role: choiceOption('any', ['any', 'primary']),
});

/** A Service that a cluster follows: its servers, and the balancer over them. */
export interface Service {
  readonly name: string;
  readonly balancer: Balancer<MysqlServer>;
  readonly transport: MysqlTransport;
  readonly settings: ServerSettings;
  readonly clock: Clock;
  readonly waitTimeoutMs: number;
  readonly idempotent: boolean;
  readonly writable: boolean;
  /** Called when a caller has to wait for a connection. */
  readonly enqueued: () => void;
  /** How long `end` waits for running statements and checked-out connections, in ms. */
  readonly endTimeoutMs: number;
  /** Returns a random number in [0, 1). */
  readonly draw: () => number;
}

/**
 * Follows a Service. `events` gets the events of its servers' connections, and `observer` those of its subchannels. Throws EVENKEEL_OPTION for
 * invalid options.
 */
export function createService(
  name: string,
  callersOptions: ServiceOptions,
  events: Events,
  observer: Observer,
): Service {
  checkNames(name === '' ? 'options' : `services.${name}`, callersOptions, [
    ...serviceTable.names,
    ...lagTable.names,
    ...renamedOptionNames,
    ...balancingTable.names,
  ]);
  const options = ownProperties(withOwnNames(ownProperties(callersOptions)));
  const { resolver, host } = whereabouts(options);
  const settings = resolveServerSettings(options, host);
  const { clock = systemClock, rng = systemRng } = options;
  const { idempotent, role } = serviceTable.resolveOwn(options);
  const mustWrite = role === 'primary';
  const lag = replicaLag(options);
  const checks: readonly ServerCheck[] = [...(mustWrite ? [new WritableServers()] : []), ...(lag ? [lag] : [])];
  const transport = new MysqlTransport({
    settings,
    clock,
    rng,
    events,
    opened: async (server, signal) => {
      for (const check of checks) await check.connected(server, signal);
    },
  });
  const balancing: Record<string, unknown> = {};
  for (const option of balancingTable.names) {
    if (option !== 'resolver' && options[option] !== undefined) balancing[option] = options[option];
  }
  checkBalancingOptions(balancing);
  const balancer: Balancer<MysqlServer> = createBalancer<MysqlServer>({
    ...balancing,
    // The stages that judge servers by their own reports come first: ejection and panic only judge the servers that remain.
    ...(checks.length > 0 && { stages: [...checks.map(({ stage }) => stage), ...(options.stages ?? [])] }),
    resolver,
    transport,
    observer: options.observer === undefined ? observer : combineObservers([options.observer, observer]),
    pool: {
      // A server is drained without a timeout, because only the server knows how long a transaction may take.
      drainTimeoutMs: Number.POSITIVE_INFINITY,
      ...options.pool,
      // No maximum age for all of a server's connections at once: `SessionPool` replaces them one by one.
      maxConnectionAgeMs: Number.POSITIVE_INFINITY,
    },
  });
  const waitTimeoutMs = options.waitTimeoutMs ?? balancerDefaults.waitTimeoutMs;
  // The wait of `end` is limited: a caller that never gives a connection back must not keep a process from ending.
  const endTimeoutMs = ownProperties(options.pool)?.drainTimeoutMs ?? poolDefaults.drainTimeoutMs;
  const draw = (): number => rng.next();
  return {
    name,
    balancer,
    transport,
    settings,
    clock,
    waitTimeoutMs,
    idempotent,
    writable: mustWrite,
    enqueued: () => tell(events, 'enqueue', undefined),
    endTimeoutMs,
    draw,
  };
}
