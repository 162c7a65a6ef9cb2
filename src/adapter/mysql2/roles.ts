/** What MySQL servers say of themselves: whether they take writes, which one took over, and how far replicas are behind. */
import {
  type Clock,
  type Endpoint,
  EvenkeelError,
  endpointAddress,
  type Outcome,
  outcomes,
  type Stage,
  type StageFactory,
} from '../../index.js';
import {
  type Complete,
  checkedOption,
  checkFunction,
  lagObjection,
  limited,
  numberOption,
  type OptionTable,
  optionTable,
  ServerWatch,
  Warnings,
  type WatchedServer,
} from '../kit/index.js';
import { isInterrupted, readOnlyOutcome, verdictOf } from './outcome.js';
import type { MysqlServer } from './session.js';

/** Why a server should get no statements, by its own word; undefined if there is no reason. */
type Objection = string | undefined;
type Connection = Pick<MysqlServer, 'endpoint' | 'closed' | 'runOwn' | 'handBack' | 'supersede' | 'reinstate'>;
type Server = WatchedServer<Connection, Objection>;
type Rows = readonly Record<string, unknown>[];

/** Asks servers about themselves, the first time before they get a statement, and ranks them by their answers. */
export interface ServerCheck {
  connected(connection: Connection, signal: AbortSignal): Promise<void>;
  readonly stage: StageFactory;
}

const WRITABLE_QUERY = 'SELECT @@global.read_only AS read_only, @@global.innodb_read_only AS innodb_read_only';
/** Milliseconds between two questions to a server whether it takes writes, and how long an answer may take. */
const WRITABLE_MS = 1_000;
/** Every server version answers this query: variables that the server does not have are missing from the answer. */
const IDENTITY_QUERY = `SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_id', 'server_uuid', 'hostname', 'read_only',
  'innodb_read_only', 'wsrep_on', 'group_replication_single_primary_mode')`;

const late = (timeoutMs: number) => (): Error => new Error(`no answer within ${timeoutMs} ms`);

/**
 * Lets only servers get statements that take writes; while none does, callers wait. A server that begins to take writes is the primary from
 * then on, and supersedes all others: what they acknowledge would be lost when they follow it. A superseded server gets no statements until
 * it was read-only, or until the primary stops being one.
 */
export class WritableServers implements ServerCheck {
  readonly #watch: ServerWatch<Connection, Objection>;
  /** How many servers took over for which a server has not identified itself yet. */
  readonly #doubts = new Map<Server, number>();
  readonly #supersededBy = new Map<Server, Server>();
  #clock!: Clock;
  #warnings!: Warnings;

  constructor() {
    this.#watch = new ServerWatch<Connection, Objection>({
      intervalMs: WRITABLE_MS,
      timeoutMs: WRITABLE_MS,
      mustAnswer: true,
      late: late(WRITABLE_MS),
      failed: (error) => notAsked(this.#warnings, error),
      ask: (connection, signal, server) => this.#ask(connection, signal, server),
      changed: (server, before) => {
        if (before !== undefined && server.facts === undefined && server.isKnown) void this.#tookOver(server);
      },
      rankOf: (server) => {
        const { facts: objection, isKnown: isConnected } = server;
        const isUsable = objection === undefined && !this.#doubts.has(server);
        return { rank: isUsable ? 0 : undefined, objection, isConnected };
      },
    });
  }

  async connected(connection: Connection, signal: AbortSignal): Promise<void> {
    await this.#watch.connected(connection, signal).catch((cause: Error) => {
      signal.throwIfAborted();
      throw new Error(`it did not say what it is: ${cause.message}`, { cause });
    });
  }

  get stage(): StageFactory {
    return (context): Stage => {
      this.#clock = context.clock;
      this.#warnings = new Warnings(context.observer, context.clock);
      return {
        ...this.#watch.stage(context),
        track: (endpoint) => ({ completed: (outcome) => this.#completed(endpoint, outcome) }),
      };
    };
  }

  #completed(endpoint: Endpoint, outcome: Outcome): void {
    if (outcome !== readOnlyOutcome) return;
    const server = this.#watch.get(endpoint);
    if (server !== undefined) this.#reported(server, server.facts ?? 'it refused a statement since it is read-only');
  }

  async #ask(connection: Connection, signal: AbortSignal, server: Server): Promise<Objection> {
    try {
      const [row] = (await connection.runOwn(WRITABLE_QUERY, signal, true)) as Rows;
      return this.#judged(readOnlyObjection(row?.read_only, row?.innodb_read_only), server);
    } catch (error) {
      // A server that does not know the query, say, takes writes as far as anybody knows.
      if (signal.aborted || isInterrupted(error) || verdictOf(error).outcome !== outcomes.success) throw error;
      notAsked(this.#warnings, error as Error);
      return server.facts;
    }
  }

  #reported(server: Server, objection: Objection): void {
    this.#watch.shown(server, this.#judged(objection, server));
  }

  /** What counts of a server's own word: once it said that it is read-only, it is no longer superseded. */
  #judged(objection: Objection, server: Server): Objection {
    if (objection !== undefined) this.#supersededBy.delete(server);
    const by = this.#supersededBy.get(server);
    if (by === undefined || by.facts !== undefined || this.#watch.get(by.endpoint) !== by) return objection;
    return `superseded by ${endpointAddress(by.endpoint)}`;
  }

  /** Every other server that might take writes has to identify itself, and gets no statements meanwhile. */
  async #tookOver(primary: Server): Promise<void> {
    const others = [...this.#watch.servers].filter((server) => server !== primary && server.facts === undefined);
    if (others.length === 0) return;
    for (const other of others) this.#doubts.set(other, (this.#doubts.get(other) ?? 0) + 1);
    const [its, ...theirs] = await Promise.all([primary, ...others].map((server) => this.#identityOf(server)));
    // If the server has lost its role again since it answered, no other one lost its role to it.
    if (its?.objection !== undefined) this.#reported(primary, its.objection);
    for (const [index, other] of others.entries()) {
      const doubts = (this.#doubts.get(other) as number) - 1;
      if (doubts > 0) this.#doubts.set(other, doubts);
      else this.#doubts.delete(other);
      if (its === undefined || its.isOneOfSeveral || primary.facts !== undefined) continue;
      const { id, objection } = theirs[index] ?? {};
      if (id === its.id || other.facts !== undefined) continue;
      if (objection === undefined) this.#supersede(other, primary);
      else this.#reported(other, objection);
    }
    this.#watch.invalidate();
  }

  #supersede(server: Server, primary: Server): void {
    this.#supersededBy.set(server, primary);
    this.#reported(server, undefined);
    server.connection?.supersede(`it is superseded by ${endpointAddress(primary.endpoint)}`);
    // From here on the server's own answers keep it from getting statements, so its sessions need no longer be refused.
    server.connection?.reinstate();
  }

  /** Which server answers; undefined if none does. */
  async #identityOf({ connection }: Server): Promise<Identity | undefined> {
    if (connection === undefined) return undefined;
    const ask = async (signal: AbortSignal): Promise<Identity> =>
      identityOf((await connection.runOwn(IDENTITY_QUERY, signal)) as Rows);
    return limited(this.#clock, WRITABLE_MS, late(WRITABLE_MS), ask).catch(() => undefined);
  }
}

/** Which database server answers at an endpoint. */
interface Identity {
  /** Two proxies in front of one server report the same id. */
  readonly id: string;
  readonly objection: Objection;
  /** Whether the server is set up to take writes beside other servers, as in a multi-primary cluster. */
  readonly isOneOfSeveral: boolean;
}

function identityOf(rows: Rows): Identity {
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

/** Whether a server variable is on. MySQL and older MariaDB report 0 and 1, newer MariaDB reports words (ON, NO_LOCK …). */
function isOn(value: unknown): boolean {
  return value !== undefined && value !== null && !['0', 'OFF', ''].includes(String(value).toUpperCase());
}

function notAsked(warnings: Warnings, error: Error): void {
  warnings.warn(`a server was not asked: ${error.message}`, error);
}

/** Runs a statement on the server whose lag is being measured. */
export type AskServer = (sql: string) => Promise<Rows>;

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

/** Ranks replicas behind others that are too far behind. Undefined if lag is not checked. Throws EVENKEEL_OPTION. */
export function replicaLag(options: ReplicaLagOptions): ServerCheck | undefined {
  const { maxLagMs, probeIntervalMs: intervalMs, probeTimeoutMs: timeoutMs, lagProbe } = lagTable.resolveOwn(options);
  if (!Number.isFinite(maxLagMs)) return undefined;
  const find = typeof lagProbe === 'string' ? byStatement(lagProbe) : lagProbe;
  let warnings: Warnings;
  const watch = new ServerWatch<Connection, Objection>({
    intervalMs,
    timeoutMs,
    mustAnswer: false,
    late: late(timeoutMs),
    failed: (error) => notAsked(warnings, error),
    ask: async (connection, signal) => {
      const lagMs = await find((sql) => connection.runOwn(sql, signal) as Promise<Rows>, connection.endpoint);
      if (lagMs === undefined) return 'its replication stands still';
      if (typeof lagMs !== 'number' || Number.isNaN(lagMs)) {
        throw new EvenkeelError('EVENKEEL_OPTION', 'lagProbe must return a number of ms, or undefined');
      }
      return lagMs > maxLagMs ? lagObjection(maxLagMs) : undefined;
    },
    rankOf: ({ facts: objection, isKnown: isConnected }) => ({
      rank: Number(objection !== undefined),
      objection,
      isConnected,
    }),
  });
  return {
    connected: (connection, signal) => watch.connected(connection, signal),
    stage: (context) => {
      warnings = new Warnings(context.observer, context.clock);
      return watch.stage(context);
    },
  };
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
