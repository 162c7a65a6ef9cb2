import {
  type Clock,
  type Endpoint,
  endpointAddress,
  type Outcome,
  outcomes,
  type Stage,
  type StageContext,
  type StageFactory,
  type Timer,
  type Tracker,
} from '../../../index.js';
import {
  deadline,
  jittered,
  notify,
  offAbort,
  onAbort,
  orAborted,
  type ServerRank,
  ServerRanking,
} from '../../kit/index.js';
import { isInterrupted, verdictOf } from '../outcome.js';

/** Why a database server should get no statements, as the server itself reports; undefined if there is no reason. */
export type Objection = string | undefined;

/** What every database server is asked repeatedly, and what follows from the answers. */
export interface ServerProbeRules {
  /** Probes one database server. If this rejects, what was last known about the server still holds. */
  probe(endpoint: Endpoint, signal: AbortSignal): Promise<Objection>;
  /** Milliseconds between two probes of a server, ± 20 %. */
  readonly intervalMs: number;
  /** How long the answer to a probe may take, in ms. */
  readonly timeoutMs: number;
  /**
   * Whether an objection counts even if every server has one, so that callers wait. A server that does not answer its first probe, or
   * interrupts it, is then not connected to. One that answers with another error, because it does not know the query, say, has no
   * objection.
   */
  readonly isFinal: boolean;
  /** The objection that the outcome of a call reveals, if any. */
  objection?(outcome: Outcome): Objection;
  /** Sends calls that wait for a session of a server, which must get no more of them, to other servers. */
  handBack(endpoint: Endpoint): void;
  /** What follows when one database server takes over from others. @defaultValue nothing */
  readonly succession?: SuccessionRules | undefined;
}

/** Which database server answers at an endpoint, as the server reports it. */
export interface Identity {
  /** The id of the server: two proxies in front of one server report the same id. */
  readonly id: string;
  /** What the server says against getting statements, as in the answer to a probe. */
  readonly objection: Objection;
  /** Whether the server is set up to accept writes beside other servers, as in a multi-primary cluster. */
  readonly isOneOfSeveral: boolean;
}

/**
 * What follows when a server takes over: when it had an objection and has none any longer. All other servers are superseded, unless they
 * prove otherwise.
 */
export interface SuccessionRules {
  identify(endpoint: Endpoint, signal: AbortSignal): Promise<Identity>;
  /** Cuts the sessions of a server that was superseded by the server `by`. */
  cut(endpoint: Endpoint, by: Endpoint): void;
}

const JITTER_RATIO = 0.2;

/** Probes every database server, the first time before it gets a statement, and as a stage ranks the servers by their answers. */
export class ServerProbe {
  readonly #rules: ServerProbeRules;
  readonly #servers = new Map<string, ProbedServer>();
  /** The problem last reported to the observer: one problem may occur at every probe, but is reported once. */
  #reportedMessage = '';

  constructor(rules: ServerProbeRules) {
    this.#rules = rules;
  }

  /** Probes a server to which a connection was just opened. Rejects if it must not be used before it has answered, and does not answer. */
  async connected({ key }: Endpoint, signal: AbortSignal): Promise<void> {
    await this.#servers.get(key)?.introduce(signal);
  }

  get stage(): StageFactory {
    return (context): Stage => {
      const rules = this.#rules;
      const servers = this.#servers;
      const ranking = new ServerRanking({
        rankOf: ({ key }) => servers.get(key)?.rank,
        handBack: (endpoint) => rules.handBack(endpoint),
        observer: context.observer,
        intervalMs: rules.intervalMs,
      });
      return {
        track: (endpoint) => {
          const server: ProbedServer = new ProbedServer(endpoint, rules, context, {
            failed: (error) => this.#warn(context, error),
            tookOver: () => void supersede(server, [...servers.values()], rules, context),
            closed: () => {
              if (servers.get(endpoint.key) === server) servers.delete(endpoint.key);
            },
          });
          servers.set(endpoint.key, server);
          return server;
        },
        apply: (set) => ranking.apply(set),
        close: () => {
          for (const server of servers.values()) server.stop();
        },
      };
    };
  }

  #warn({ observer }: StageContext, error: Error): void {
    if (error.message === this.#reportedMessage) return;
    this.#reportedMessage = error.message;
    notify(observer, 'warned', { message: `a server was not asked: ${error.message}`, error });
  }
}

/** What a probed server reports to its stage. */
interface ProbeEvents {
  /** The server could not be probed. */
  failed(error: Error): void;
  /** The server had an objection, and now has none. */
  tookOver(): void;
  closed(): void;
}

/**
 * Handles that a server took over. Every other server without an objection has to identify itself, and gets no statements meanwhile. A
 * server that does not answer, or still accepts writes, would acknowledge changes that are lost when it follows the new primary: its
 * sessions are cut, and it gets no statements.
 */
async function supersede(
  primary: ProbedServer,
  all: readonly ProbedServer[],
  { succession, timeoutMs }: ServerProbeRules,
  { clock, invalidate }: StageContext,
): Promise<void> {
  const others = all.filter((server) => server !== primary && server.objection === undefined);
  if (succession === undefined || others.length === 0) return;
  const identify = ({ endpoint }: ProbedServer): Promise<Identity | undefined> => {
    const limit = new AbortController();
    return limited(clock, timeoutMs, limit, () => succession.identify(endpoint, limit.signal)).catch(() => undefined);
  };
  for (const other of others) other.doubts++;
  invalidate();
  const [its, ...theirs] = await Promise.all([primary, ...others].map(identify));
  // If the server has lost its role again since it answered, no other one lost its role to it.
  if (its?.objection !== undefined) primary.reported(its.objection);
  for (const [index, other] of others.entries()) {
    other.doubts--;
    if (its === undefined || its.isOneOfSeveral || primary.objection !== undefined) continue;
    const { id, objection } = theirs[index] ?? {};
    if (id === its.id || other.objection !== undefined) continue;
    if (objection !== undefined) other.reported(objection);
    else {
      other.superseded(primary);
      succession.cut(other.endpoint, primary.endpoint);
    }
  }
  invalidate();
}

/** One database server, and what it last reported about itself. */
class ProbedServer implements Tracker {
  isConnected = false;
  objection: Objection;
  /** How many other servers took over for which this server has not identified itself yet. */
  doubts = 0;
  readonly endpoint: Endpoint;
  readonly #rules: ServerProbeRules;
  readonly #context: StageContext;
  readonly #events: ProbeEvents;
  #timer: Timer | undefined;
  #running: AbortController | undefined;
  #supersededBy: ProbedServer | undefined;
  #isClosed = false;

  constructor(endpoint: Endpoint, rules: ServerProbeRules, context: StageContext, events: ProbeEvents) {
    this.endpoint = endpoint;
    this.#rules = rules;
    this.#context = context;
    this.#events = events;
  }

  /** The rank of the server. A server with an objection that is not final is used if there is no other server. */
  get rank(): ServerRank {
    const { isConnected, objection, doubts } = this;
    if (objection === undefined && doubts === 0) return { rank: 0, objection, isConnected };
    return { rank: this.#rules.isFinal ? undefined : 1, objection, isConnected };
  }

  /** Probes the server for the first time on a new connection, before it gets statements. Rejects if it must not get any yet. */
  async introduce(signal: AbortSignal): Promise<void> {
    try {
      await this.#ask(signal);
    } catch (cause) {
      signal.throwIfAborted();
      const error = cause as Error;
      if (this.#rules.isFinal && (isInterrupted(error) || verdictOf(error).outcome !== outcomes.success)) {
        throw new Error(`it did not say what it is: ${error.message}`, { cause });
      }
      this.#events.failed(error);
    }
    // The connection may replace another one of a server that stays connected.
    if (this.isConnected) this.#schedule();
  }

  connected(): void {
    this.isConnected = true;
    this.#context.invalidate();
    this.#schedule();
  }

  disconnected(): void {
    this.isConnected = false;
    this.stop();
    this.#context.invalidate();
  }

  completed(outcome: Outcome): void {
    const objection = this.#rules.objection?.(outcome);
    if (objection === undefined || (this.objection !== undefined && this.#running === undefined)) return;
    // The server may have given an answer that is under way before it refused the statement.
    this.#running = undefined;
    if (this.objection === undefined) this.#judge(objection);
    this.#schedule();
  }

  closed(): void {
    this.#isClosed = true;
    this.stop();
    this.#events.closed();
  }

  /**
   * Another server took over. This server gets no statements until it has followed the new primary, or until the new primary stops being
   * one.
   */
  superseded(by: ProbedServer): void {
    this.#supersededBy = by;
    this.#judge(this.#supersession);
    if (this.isConnected) this.#schedule();
  }

  get #supersession(): Objection {
    const by = this.#supersededBy;
    if (by === undefined || by.#isClosed || by.objection !== undefined) return undefined;
    return `superseded by ${endpointAddress(by.endpoint)}`;
  }

  /** The server has said why it should get no statements, though not as the answer to a probe. */
  reported(objection: string): void {
    this.#supersededBy = undefined;
    this.#judge(objection);
    if (this.isConnected) this.#schedule();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#running?.abort(new Error('the question was called off'));
    this.#running = undefined;
  }

  #schedule(): void {
    const { rng, clock } = this.#context;
    const { intervalMs } = this.#rules;
    this.#timer?.cancel();
    this.#timer = clock.timer(() => void this.#probe(), jittered(rng, intervalMs, JITTER_RATIO));
  }

  async #probe(): Promise<void> {
    try {
      if (!(await this.#ask())) return;
    } catch (error) {
      this.#events.failed(error as Error);
    }
    if (this.isConnected) this.#schedule();
  }

  /** Probes the server. Resolves to false if the probe was called off; rejects if the server does not answer. */
  async #ask(signal?: AbortSignal): Promise<boolean> {
    this.stop();
    const limit = new AbortController();
    const aborted = (): void => limit.abort(signal?.reason);
    this.#running = limit;
    onAbort(signal, aborted);
    try {
      const objection = await limited(this.#context.clock, this.#rules.timeoutMs, limit, () =>
        this.#rules.probe(this.endpoint, limit.signal),
      );
      if (this.#running !== limit) return false;
      if (objection !== undefined) this.#supersededBy = undefined;
      this.#judge(objection ?? this.#supersession);
      return true;
    } catch (error) {
      if (this.#running === limit) throw error;
      return false;
    } finally {
      offAbort(signal, aborted);
      if (this.#running === limit) this.#running = undefined;
    }
  }

  #judge(objection: Objection): void {
    const before = this.objection;
    this.objection = objection;
    if ((before === undefined) === (objection === undefined)) return;
    if (objection === undefined) this.#events.tookOver();
    this.#context.invalidate();
  }
}

/** Limits the time of a probe, even of a probe that ignores its signal. */
async function limited<T>(clock: Clock, timeoutMs: number, limit: AbortController, ask: () => Promise<T>): Promise<T> {
  const late = (): void => limit.abort(new Error(`no answer within ${timeoutMs} ms`));
  const timer = deadline(clock, late, timeoutMs);
  try {
    return await orAborted(ask(), limit.signal);
  } finally {
    timer.cancel();
  }
}
