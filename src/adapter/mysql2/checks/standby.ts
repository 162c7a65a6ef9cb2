/** The reports of a server about itself that put it on standby: it accepts no writes, or it is too far behind. */
import { type Endpoint, EvenkeelError } from '../../../index.js';
import {
  type Complete,
  checkedOption,
  checkFunction,
  lagObjection,
  numberOption,
  type OptionTable,
  optionTable,
} from '../../kit/index.js';
import { readOnlyOutcome } from '../outcome.js';
import { type Identity, type Objection, ServerProbe } from './server-probe.js';

/** What the probes do with a database server. */
export interface ProbedService {
  /**
   * Runs a query of evenkeel's own on the server.
   * @param mayWait Whether the query opens no session beyond the limit, but waits until one is given back.
   */
  query(
    endpoint: Endpoint,
    sql: string,
    signal: AbortSignal,
    mayWait?: boolean,
  ): Promise<readonly Record<string, unknown>[]>;
  /** Sends calls that wait for a session of the server to other servers. */
  handBack(endpoint: Endpoint): void;
  /** Ends the sessions of a superseded server. */
  supersede(endpoint: Endpoint, by: Endpoint): void;
}

const WRITABLE_QUERY = 'SELECT @@global.read_only AS read_only, @@global.innodb_read_only AS innodb_read_only';
/** Milliseconds between two probes of a server. */
const WRITABLE_INTERVAL_MS = 1_000;
const WRITABLE_TIMEOUT_MS = 1_000;
/**
 * The query for a server's identity. Every server version answers it: variables that the server does not have are missing from the answer.
 */
const IDENTITY_QUERY = `SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_id', 'server_uuid', 'hostname', 'read_only',
  'innodb_read_only', 'wsrep_on', 'group_replication_single_primary_mode')`;

/**
 * Puts servers on standby that accept no writes. A server is probed before its first statement and then every second; it is also on standby
 * once it refused a statement as read-only. While no server accepts writes, callers wait. A server that starts to accept writes is the
 * primary from then on, and all others are superseded.
 */
export function writable(service: ProbedService): ServerProbe {
  return new ServerProbe({
    probe: async (endpoint, signal) => {
      const [row] = await service.query(endpoint, WRITABLE_QUERY, signal, true);
      return readOnlyObjection(row?.read_only, row?.innodb_read_only);
    },
    objection: (outcome) => (outcome === readOnlyOutcome ? 'it refused a statement since it is read-only' : undefined),
    intervalMs: WRITABLE_INTERVAL_MS,
    timeoutMs: WRITABLE_TIMEOUT_MS,
    isFinal: true,
    handBack: (endpoint) => service.handBack(endpoint),
    succession: {
      identify: async (endpoint, signal) => identityOf(await service.query(endpoint, IDENTITY_QUERY, signal)),
      cut: (endpoint, by) => service.supersede(endpoint, by),
    },
  });
}

function identityOf(rows: readonly Record<string, unknown>[]): Identity {
  const variables = new Map(rows.map((row) => [row.Variable_name, row.Value]));
  const value = (name: string): unknown => variables.get(name);
  return {
    id: JSON.stringify(['server_id', 'server_uuid', 'hostname'].map(value)),
    objection: readOnlyObjection(value('read_only'), value('innodb_read_only')),
    // These two variables are set with Galera, and with group replication in multi-primary mode.
    isOneOfSeveral: isOn(value('wsrep_on')) || value('group_replication_single_primary_mode') === 'OFF',
  };
}

/** @param variables The values of the variables that make a server read-only. */
function readOnlyObjection(...variables: readonly unknown[]): Objection {
  return variables.some(isOn) ? 'it is read-only' : undefined;
}

/**
 * Whether the value of a server variable means "on". MySQL and older MariaDB report 0 and 1, newer MariaDB reports words (ON, NO_LOCK …).
 */
function isOn(value: unknown): boolean {
  return value !== undefined && value !== null && !['0', 'OFF', ''].includes(String(value).toUpperCase());
}

/** Runs a statement on the server whose lag is being measured. */
export type AskServer = (sql: string) => Promise<readonly Record<string, unknown>[]>;

/** Options for how far behind replicas may be. */
export interface ReplicaLagOptions {
  /** A server further behind than this, in ms, gets no statement while another server is usable. @defaultValue Infinity: not checked */
  readonly maxLagMs?: number | undefined;
  /** How often the lag of each server is queried, in ms, ± 20 %. @defaultValue 1000 */
  readonly probeIntervalMs?: number | undefined;
  /** How long a server may take to answer a query for its lag, in ms. @defaultValue 1000 */
  readonly probeTimeoutMs?: number | undefined;
  /**
   * How the lag of a server is measured: a function that returns the lag in ms (`undefined` = replication has stopped), or a statement
   * whose first column is the lag in seconds, such as one over a heartbeat table.
   * @defaultValue SHOW REPLICA STATUS; the user needs REPLICATION CLIENT, in MariaDB REPLICA MONITOR
   */
  readonly lagProbe?: string | ((query: AskServer, endpoint: Endpoint) => Promise<number | undefined>) | undefined;
}

export const lagTable: OptionTable<Complete<ReplicaLagOptions>> = optionTable('options', {
  maxLagMs: numberOption(Number.POSITIVE_INFINITY, { min: 0, max: 86_400_000, infinite: true }),
  probeIntervalMs: numberOption(1_000, { min: 10, max: 3_600_000 }),
  probeTimeoutMs: numberOption(1_000, { min: 1, max: 86_400_000 }),
  lagProbe: checkedOption<NonNullable<ReplicaLagOptions['lagProbe']>>(byReplicaStatus, (name, value) => {
    if (typeof value !== 'string') checkFunction(name, value);
    return value as NonNullable<ReplicaLagOptions['lagProbe']>;
  }),
});

/**
 * Puts replicas on standby that are too far behind. If every replica is, all are used. Undefined if lag is not checked. Throws
 * EVENKEEL_OPTION.
 */
export function replicaLag(options: ReplicaLagOptions, service: ProbedService): ServerProbe | undefined {
  const { maxLagMs: maxMs, probeIntervalMs, probeTimeoutMs, lagProbe } = lagTable.resolveOwn(options);
  if (!Number.isFinite(maxMs)) return undefined;
  const find = typeof lagProbe === 'string' ? byStatement(lagProbe) : lagProbe;
  return new ServerProbe({
    probe: async (endpoint, signal) => {
      const lagMs = await find((sql) => service.query(endpoint, sql, signal), endpoint);
      if (lagMs === undefined) return 'its replication stands still';
      if (typeof lagMs !== 'number' || Number.isNaN(lagMs)) {
        throw new EvenkeelError('EVENKEEL_OPTION', 'lagProbe must return a number of ms, or undefined');
      }
      return lagMs > maxMs ? lagObjection(maxMs) : undefined;
    },
    intervalMs: probeIntervalMs,
    timeoutMs: probeTimeoutMs,
    isFinal: false,
    handBack: (endpoint) => service.handBack(endpoint),
  });
}

/**
 * Reads the lag from a server's replica status. MySQL reports Seconds_Behind_Source, MariaDB Seconds_Behind_Master; null means that a
 * replication thread of the server has stopped.
 */
async function byReplicaStatus(query: AskServer): Promise<number | undefined> {
  const rows = await query('SHOW REPLICA STATUS').catch((error: { readonly errno?: number }) => {
    // MySQL servers from before 2020 only know the older statement.
    if (error.errno === 1064) return query('SHOW SLAVE STATUS');
    throw error;
  });
  // A server that replicates nothing is a primary, and is never behind.
  if (rows.length === 0) return 0;
  let worst = 0;
  for (const row of rows) {
    const seconds = row.Seconds_Behind_Source ?? row.Seconds_Behind_Master;
    if (seconds === null || seconds === undefined) return undefined;
    worst = Math.max(worst, Number(seconds));
  }
  return worst * 1_000;
}

function byStatement(sql: string): (query: AskServer) => Promise<number | undefined> {
  return async (query) => {
    const [row] = await query(sql);
    const [seconds] = Object.values(row ?? {});
    return seconds === null || seconds === undefined ? undefined : Number(seconds) * 1_000;
  };
}
