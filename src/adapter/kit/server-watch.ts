import type { Endpoint } from '../../endpoint/endpoint.js';
import type { EndpointSet } from '../../endpoint/endpoint-set.js';
import { asError } from '../../errors.js';
import { offAbort, onAbort, orAborted } from '../../runtime/abort-listeners.js';
import type { Clock, Timer } from '../../runtime/clock.js';
import { deadline } from '../../runtime/deadline.js';
import { jittered } from '../../runtime/rng.js';
import type { Stage, StageContext, StageFactory } from '../../stage/stage.js';
import { type ServerRank, ServerRanking } from './server-ranking.js';

/** A connection to a database server, as far as a `ServerWatch` uses it. */
export interface WatchedConnection {
  readonly endpoint: Endpoint;
  readonly closed: Promise<unknown>;
  /** Sends calls that wait for a session of this server to other servers. */
  handBack(): void;
}

/** What one kind of database asks its servers, and what follows from the answers. */
export interface WatchRules<S extends WatchedConnection, F> {
  /** Milliseconds between two questions to a server, ± 20 %. */
  readonly intervalMs: number;
  /** Milliseconds between two questions while no server can be used. @defaultValue `intervalMs` */
  readonly hurryMs?: number;
  /** How long an answer may take, in ms. */
  readonly timeoutMs: number;
  /** Whether a server that does not answer the first question on a new connection is not connected to. */
  readonly mustAnswer: boolean;
  /** Asks the server what it is. */
  ask(connection: S, signal: AbortSignal, server: WatchedServer<S, F>): Promise<F>;
  /** Creates the error for an answer that takes longer than `timeoutMs`. */
  late(endpoint: Endpoint): Error;
  /** A question failed. What the server said before still holds: a server that is merely busy must not lose its role. */
  failed(error: Error): void;
  /** A server answered, or was lost. `before` is what it had said before. */
  changed?(server: WatchedServer<S, F>, before: F | undefined): void;
  rankOf(server: WatchedServer<S, F>): ServerRank | undefined;
}

/**
 * One server, and what it last said. It outlives the server's connections, so that one that returns is not taken for one of which nothing
 * is known. Only `ServerWatch` writes its fields.
 */
export class WatchedServer<S, F> {
  /** The endpoint of the server. */
  readonly endpoint: Endpoint;
  /** The latest connection to the server; undefined while none is open. */
  connection: S | undefined;
  /** What the server last said, over any connection. */
  facts: F | undefined;
  /** Whether the server has said what it is since it was connected, or since it was last forgotten. */
  isKnown = false;
  /** Asks the server again; undefined before the first question. */
  timer: Timer | undefined;
  /** Settles when the question that is running has been answered; undefined while none is running. */
  running: Promise<void> | undefined;
  /** When the server was last asked, in ms on the balancer's clock. */
  askedAtMs: number = Number.NEGATIVE_INFINITY;
  /** Whether something suggested, while a question was running, that its answer is out of date. */
  isHinted = false;
  /** Counts what makes the answers to running questions worthless. */
  era = 0;

  constructor(endpoint: Endpoint) {
    this.endpoint = endpoint;
  }
}

const JITTER_RATIO = 0.2;
/** The shortest time between questions that answers to statements suggest, in ms: an application may cause such answers all the time. */
const HINT_MS = 100;

/**
 * Asks every server of a database what it is: before its first call, and then again and again. As a stage, it gives calls only to the
 * servers that rank best by their answers.
 */
export class ServerWatch<S extends WatchedConnection, F> {
  readonly #rules: WatchRules<S, F>;
  readonly #servers = new Map<string, WatchedServer<S, F>>();
  #context!: StageContext;
  #present: ReadonlySet<string> = new Set();
  #isShort = false;
  #isClosed = false;

  constructor(rules: WatchRules<S, F>) {
    this.#rules = rules;
  }

  /** The servers of the set, and those that left it but are still connected. */
  get servers(): Iterable<WatchedServer<S, F>> {
    return this.#servers.values();
  }

  /** The server of an endpoint; undefined if it is neither in the set nor connected. */
  get({ key }: Endpoint): WatchedServer<S, F> | undefined {
    return this.#servers.get(key);
  }

  /** Asks the server of a connection that was just opened what it is. Rejects if the server must not be used. */
  async connected(connection: S, signal: AbortSignal): Promise<void> {
    const server = this.#server(connection.endpoint);
    const { connection: older, isKnown } = server;
    server.connection = connection;
    server.isKnown = false;
    server.era++;
    server.running = undefined;
    server.timer?.cancel();
    void connection.closed.then(() => this.#lost(server, connection));
    const { era } = server;
    try {
      await this.#ask(server, signal);
    } catch (error) {
      if (this.#rules.mustAnswer || signal.aborted) {
        if (server.connection === connection) Object.assign(server, { connection: older, isKnown });
        throw error;
      }
      this.#rules.failed(asError(error));
      if (era === server.era) this.#learned(server, server.facts);
    } finally {
      this.#schedule(server);
    }
  }

  /** Something suggests that a server's answer has changed: it is asked soon. */
  hint(endpoint: Endpoint): void {
    const server = this.get(endpoint);
    if (server === undefined) return;
    if (server.running !== undefined) server.isHinted = true;
    else this.#askIn(server, Math.max(0, HINT_MS - (this.#clock.now() - server.askedAtMs)));
  }

  /** Asks a server, even if a question is running, whose answer may be older than what made the caller ask. */
  async askAgain(server: WatchedServer<S, F> | undefined): Promise<void> {
    await server?.running?.catch(() => {});
    if (server !== undefined) await this.#ask(server);
  }

  /** A server has shown what it is, though not as an answer. An answer that is under way is older. */
  shown(server: WatchedServer<S, F>, facts: F): void {
    server.era++;
    this.#learned(server, facts);
    this.#schedule(server);
  }

  /** What a server said counts no longer, until it has answered again. */
  forget(server: WatchedServer<S, F>): void {
    server.isKnown = false;
    server.era++;
    server.timer?.cancel();
    this.#report(server, this.askAgain(server));
    this.#changed(server, server.facts);
  }

  /** Makes the present ranks count. */
  invalidate(): void {
    this.#context.invalidate();
  }

  /** The stage that gives calls only to the servers that rank best. */
  get stage(): StageFactory {
    return (context): Stage => {
      this.#context = context;
      const { rankOf, intervalMs } = this.#rules;
      const ranking = new ServerRanking({
        rankOf: (endpoint) => rankOf(this.#server(endpoint)),
        handBack: (endpoint) => this.get(endpoint)?.connection?.handBack(),
        observer: context.observer,
        intervalMs,
      });
      return {
        apply: (set) => {
          this.#follow(set);
          const ranked = ranking.apply(set);
          this.#hurry(ranking.hasNone);
          return ranked;
        },
        close: () => {
          this.#isClosed = true;
          for (const { timer } of this.servers) timer?.cancel();
        },
      };
    };
  }

  get #clock(): Clock {
    return this.#context.clock;
  }

  #server(endpoint: Endpoint): WatchedServer<S, F> {
    const server = this.get(endpoint) ?? new WatchedServer<S, F>(endpoint);
    this.#servers.set(endpoint.key, server);
    return server;
  }

  #schedule(server: WatchedServer<S, F>): void {
    const { intervalMs, hurryMs = intervalMs } = this.#rules;
    const pauseMs = jittered(this.#context.rng, this.#isShort ? hurryMs : intervalMs, JITTER_RATIO);
    this.#askIn(server, server.isHinted ? HINT_MS : pauseMs);
    server.isHinted = false;
  }

  #askIn(server: WatchedServer<S, F>, delayMs: number): void {
    server.timer?.cancel();
    if (this.#isClosed || server.connection === undefined) return;
    server.timer = this.#clock.timer(() => this.#report(server, this.#ask(server)), delayMs);
  }

  #report(server: WatchedServer<S, F>, question: Promise<void>): void {
    question.catch((error) => this.#rules.failed(asError(error))).finally(() => this.#schedule(server));
  }

  /** Asks a server, one question at a time. */
  #ask(server: WatchedServer<S, F>, signal?: AbortSignal): Promise<void> {
    if (server.running !== undefined) return server.running;
    const running = this.#question(server, signal).finally(() => {
      if (server.running === running) server.running = undefined;
    });
    server.running = running;
    return running;
  }

  async #question(server: WatchedServer<S, F>, signal: AbortSignal | undefined): Promise<void> {
    const { timeoutMs, ask, late } = this.#rules;
    const { connection, era, endpoint } = server;
    if (connection === undefined) return;
    server.askedAtMs = this.#clock.now();
    try {
      const facts = await limited(
        this.#clock,
        timeoutMs,
        () => late(endpoint),
        (limit) => ask(connection, limit, server),
        signal,
      );
      if (era === server.era) this.#learned(server, facts);
    } catch (error) {
      if (era === server.era) throw error;
    }
  }

  #learned(server: WatchedServer<S, F>, facts: F | undefined): void {
    const { facts: before, isKnown } = server;
    server.facts = facts;
    server.isKnown = server.connection !== undefined;
    if (before !== facts || isKnown !== server.isKnown) this.#changed(server, before);
  }

  #lost(server: WatchedServer<S, F>, connection: S): void {
    if (server.connection !== connection) return;
    server.connection = undefined;
    server.isKnown = false;
    server.era++;
    server.timer?.cancel();
    if (!this.#present.has(server.endpoint.key)) this.#servers.delete(server.endpoint.key);
    this.#changed(server, server.facts);
  }

  #changed(server: WatchedServer<S, F>, before: F | undefined): void {
    this.#rules.changed?.(server, before);
    this.#context.invalidate();
  }

  /** Forgets the servers that left the set and are not connected, and knows of all that are in it before one is ranked. */
  #follow(set: EndpointSet): void {
    for (const { endpoint } of set.entries) this.#server(endpoint);
    this.#present = new Set(set.entries.map(({ endpoint }) => endpoint.key));
    for (const [key, server] of this.#servers) {
      if (this.#present.has(key) || server.connection !== undefined) continue;
      this.#servers.delete(key);
      this.#rules.changed?.(server, server.facts);
    }
  }

  /** Asks more often while no server can be used, because one may be promoted at any moment. */
  #hurry(isShort: boolean): void {
    const begins = isShort && !this.#isShort;
    this.#isShort = isShort;
    if (begins && this.#rules.hurryMs !== undefined) for (const server of this.servers) this.#schedule(server);
  }
}

/** Limits the time of a question, even of one that ignores its signal. @param late Creates the error for an answer that takes longer. */
export async function limited<T>(
  clock: Clock,
  timeoutMs: number,
  late: () => Error,
  ask: (signal: AbortSignal) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const limit = new AbortController();
  const aborted = (): void => limit.abort(signal?.reason);
  const timer = deadline(clock, () => limit.abort(late()), timeoutMs);
  onAbort(signal, aborted);
  if (signal?.aborted) aborted();
  try {
    return await orAborted(ask(limit.signal), limit.signal);
  } finally {
    timer.cancel();
    offAbort(signal, aborted);
  }
}
