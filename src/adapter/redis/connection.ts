import {
  type Clock,
  type Connection,
  type Endpoint,
  EvenkeelError,
  endpointAddress,
  type Rng,
  type Timer,
} from '../../index.js';
import { asError, deadline, jittered, type LogPosition, markLasting, OpenConnection, orAborted } from '../kit/index.js';
import { isLogInRefused, isOfCluster } from './outcome.js';

/**
 * A client of the application's own Redis library that connects to one server. It never reconnects, and queues no commands while it is
 * disconnected.
 */
export interface ServerClient {
  /** The Redis library's own client object. */
  readonly client: unknown;
  /** Resolves when the client is ready for commands. */
  connect(): Promise<void>;
  /** Resolves with the server's answer to INFO. */
  info(section: 'replication' | 'cluster'): Promise<string>;
  /** How many bytes the client has received, as far as the Redis library reports that. */
  readonly received: number;
  /** How long the Redis library lets a command take, in ms; undefined = no limit. */
  readonly commandTimeoutMs: number | undefined;
  /** Sets whether the client is busy: only a busy client's socket keeps the process alive. */
  busy(isBusy: boolean): void;
  /** Closes the client's connection while no command runs on it. */
  finish(): void;
  /** Cuts the client's connection, whatever runs on it. */
  cut(): void;
}

/** A read of the application that runs on a Redis server. */
export interface RunningRead {
  /** When the read was sent, a time of the injected clock. */
  readonly sentMs: number;
  /** Called when the server does not answer: the read moves to another server, if one can take it now. May be called again. */
  unanswered(): void;
}

/**
 * Makes a client of a replica, or of the primary if `endpoint` is undefined. `ended` is called once, with the error if an error closed the
 * client.
 */
export type OpenClient = (endpoint: Endpoint | undefined, ended: (error: Error | undefined) => void) => ServerClient;

/** What a `Server` needs from the object that creates it. */
export interface ServerParts {
  /** The endpoint of a replica; undefined for the primary. */
  readonly endpoint: Endpoint | undefined;
  readonly open: OpenClient;
  readonly probeIntervalMs: number;
  readonly clock: Clock;
  readonly rng: Rng;
  /** Called when the server starts or stops being usable for reads. */
  readonly changed: () => void;
  /** Called when the server has reported its position in the replication log. */
  readonly learned: (position: LogPosition, server: Server) => void;
  readonly warned: (error: Error) => void;
}

/** A server that has sent nothing for this long, in ms, gets no further read until it does, because Redis runs one command at a time. */
const SILENT_MS = 1_000;
/** The share of a command's timeout after which the server counts as silent, so that another server can still answer the read in time. */
const SILENT_RATIO = 0.5;
/** How many times a server with running reads is checked before it counts as silent. */
const CHECKS_PER_SILENCE = 4;
/** How long a server may send nothing before its connection is cut, in ms, so that the commands on it go to another server. */
const DEAD_MS = 10_000;
const SILENT = 'it does not answer';
const UNASKABLE = 'does not permit INFO: a replica then counts as one in step, and lag is not known';
const OF_CLUSTER =
  "is a node of a Redis Cluster: use the library's Cluster, with scaleReads (ioredis) or useReplicas (node-redis)";

/** One Redis server: the connection to it, and what the server reports about itself. */
export class Server implements Connection<Server> {
  readonly handle: Server = this;
  readonly capacity: number = Number.POSITIVE_INFINITY;
  readonly endpoint: Endpoint | undefined;
  /** Why the server may not be read from; undefined if it may be. */
  objection: string | undefined = 'it has not said yet what it is';
  /** Whether the replica's data is further behind the primary than `maxLagMs`. */
  isBehind = false;
  /** Whether the connection gets no more reads, because it was replaced, discarded or lost. */
  isClosing = false;
  readonly #parts: ServerParts;
  readonly #client: ServerClient;
  readonly #open: OpenConnection<Server>;
  #probing: Promise<void> | undefined;
  #timer: Timer | undefined;
  #answers = 0;
  /** The running reads in the order in which they were sent. */
  readonly #reads = new Set<RunningRead>();
  readonly #silentMs: number;
  /** Whether a timer runs that checks whether reads on this server are still answered. */
  #isWatched = false;
  #watchTimer: Timer | undefined;
  #isOver = false;
  #isOfCluster = false;

  constructor(parts: ServerParts) {
    this.#parts = parts;
    this.endpoint = parts.endpoint;
    this.#client = parts.open(parts.endpoint, (error) => this.#ended(error));
    this.#silentMs = Math.min(SILENT_MS, SILENT_RATIO * (this.#client.commandTimeoutMs ?? SILENT_MS / SILENT_RATIO));
    this.#open = new OpenConnection<Server>({
      handle: this,
      finish: () => this.#client.finish(),
      cut: () => this.#client.cut(),
      busy: (isBusy) => this.#client.busy(isBusy),
    });
  }

  get closed(): Promise<Error | undefined> {
    return this.#open.closed;
  }

  /** Connects to the server and queries its role. If that fails or the signal aborts, the connection is closed. */
  async connect(signal: AbortSignal): Promise<void> {
    try {
      signal.throwIfAborted();
      await orAborted(this.#begin(), signal);
      if (this.#isOver) throw (await this.closed) ?? new Error('it closed the connection');
    } catch (cause) {
      void this.close(AbortSignal.abort());
      const error = asError(cause);
      throw isLogInRefused(error) ? markLasting(error) : error;
    }
    this.#schedule();
  }

  async #begin(): Promise<void> {
    await this.#client.connect();
    this.#client.busy(false);
    const [cluster] = await Promise.all([this.#client.info('cluster').catch(() => ''), this.#probe()]);
    if (field(cluster, 'cluster_enabled') === '1') throw markLasting(complaint(this.endpoint, OF_CLUSTER));
    if (this.objection?.includes(' NOAUTH ')) throw markLasting(new Error(this.objection));
  }

  /** The library's client object, which sends reads to this server. */
  get client(): unknown {
    return this.#client.client;
  }

  callBegins(read: RunningRead): void {
    this.#reads.add(read);
    this.#open.callBegins();
    if (!this.#isWatched) this.#watch(this.#parts.clock.now(), this.#received);
  }

  /** A read on this server has ended. @param isAnswered Whether the server answered the read, if only with an error. */
  callEnds(read: RunningRead, isAnswered: boolean): void {
    this.#reads.delete(read);
    if (isAnswered) this.#answers++;
    this.#open.callEnds();
  }

  /** The server refused a read: it gets no further read until it reports that it can serve reads. */
  suspected(error: Error): void {
    if (isOfCluster(error)) this.#isOfCluster = true;
    this.#object(`it answered ${error.message}`);
    this.#schedule();
  }

  /** The Redis library reported a lost connection with a read's error, which may come before the client's end event. */
  gone(error: Error): void {
    if (this.#isOver) return;
    this.#client.cut();
    this.#ended(error);
  }

  async ping(): Promise<void> {
    await this.#client.info('replication');
  }

  close(signal?: AbortSignal): Promise<void> {
    this.isClosing = true;
    return this.#open.close(signal);
  }

  /** A number that changes whenever the server sends something. It has no other meaning. */
  get #received(): number {
    return this.#answers + this.#client.received;
  }

  /**
   * Checks the server while reads run on it. Redis servers answer in order: if the first read has waited for long and nothing has arrived
   * since, all later reads are stuck behind it, and all of them move to other servers.
   */
  #watch(receivedAtMs: number, received: number): void {
    const { clock } = this.#parts;
    this.#isWatched = true;
    const check = (): void => {
      this.#isWatched = false;
      const [first] = this.#reads;
      if (first === undefined || this.#isOver) return;
      const now = clock.now();
      const lastReceivedMs = received === this.#received ? receivedAtMs : now;
      this.#watch(lastReceivedMs, this.#received);
      if (now - Math.max(lastReceivedMs, first.sentMs) < this.#silentMs) return;
      this.#object(SILENT);
      void this.#probe();
      for (const read of [...this.#reads]) read.unanswered();
    };
    this.#watchTimer = deadline(clock, check, this.#silentMs / CHECKS_PER_SILENCE);
  }

  #probe(): Promise<void> {
    this.#probing ??= this.#learn().finally(() => {
      this.#probing = undefined;
    });
    return this.#probing;
  }

  async #learn(): Promise<void> {
    const { clock } = this.#parts;
    let before = this.#received;
    let silentMs = 0;
    const check = (): void => {
      // Redis servers answer in order, so the answer to this INFO may be waiting behind other answers.
      silentMs = this.#received === before ? silentMs + SILENT_MS : 0;
      before = this.#received;
      if (silentMs >= DEAD_MS) this.#client.cut();
      else if (silentMs > 0) this.#object(SILENT);
      timer = deadline(clock, check, SILENT_MS);
    };
    let timer = deadline(clock, check, SILENT_MS);
    try {
      const info = await this.#client.info('replication');
      this.#object(objectionOf(info));
      const position = this.objection === undefined || this.endpoint === undefined ? positionOf(info) : undefined;
      if (position !== undefined) this.#parts.learned(position, this);
    } catch (cause) {
      if (this.#isOver) return;
      const error = asError(cause);
      const isForbidden = error.message.startsWith('NOPERM ');
      if (isForbidden && this.objection !== undefined) this.#parts.warned(complaint(this.endpoint, UNASKABLE, error));
      this.#object(isForbidden ? undefined : `it answered ${error.message}`);
    } finally {
      timer.cancel();
    }
  }

  #schedule(): void {
    const { clock, rng, probeIntervalMs } = this.#parts;
    this.#timer?.cancel();
    if (this.#isOver) return;
    const delayMs = jittered(rng, probeIntervalMs, 0.2);
    this.#timer = clock.timer(() => void this.#probe().then(() => this.#schedule()), delayMs);
  }

  #object(reported: string | undefined): void {
    const objection = this.#isOfCluster ? 'it is a node of a Redis Cluster' : reported;
    if (objection === this.objection) return;
    this.objection = objection;
    this.#parts.changed();
  }

  #ended(error: Error | undefined): void {
    this.#isOver = true;
    this.isClosing = true;
    this.#timer?.cancel();
    this.#watchTimer?.cancel();
    // A connection that the server closed while a read ran was not closed in order.
    this.#open.ended(error ?? (this.#open.running > 0 ? new Error('it closed the connection') : undefined));
  }
}

/** Why a server that gave this answer to INFO may not be read from; undefined if it may be. */
export function objectionOf(info: string): string | undefined {
  const role = field(info, 'role');
  if (role !== 'slave') return `it is no replica, but says role:${role ?? ''}`;
  if (field(info, 'master_link_status') === 'up') return undefined;
  if (field(info, 'master_sync_in_progress') === '1') return 'it is copying the data of its primary';
  return 'its link to the primary is down';
}

/** The position in the replication log that a server's answer to INFO states. */
export function positionOf(info: string): LogPosition | undefined {
  const history = field(info, 'master_replid');
  const offset = field(info, 'slave_repl_offset') ?? field(info, 'master_repl_offset');
  if (history === undefined || offset === undefined) return undefined;
  const silent = Number(field(info, 'master_last_io_seconds_ago') ?? -1);
  return { history, offset: Number(offset), silentMs: silent < 0 ? undefined : silent * 1_000 };
}

function field(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:([^\\r\\n]*)`, 'm').exec(info)?.[1];
}

function complaint(of: Endpoint | undefined, what: string, cause?: Error): EvenkeelError {
  const endpoint = of && endpointAddress(of);
  return new EvenkeelError('EVENKEEL_CONNECT', `${endpoint ?? 'the primary'} ${what}`, { cause, endpoint });
}
