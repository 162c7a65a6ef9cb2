import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { type buildConnector, Client, type Dispatcher, Pool } from 'undici';
import { ReportAsking } from '../kit/index.js';
import { isBusy, isConnected, isParserPaused, markNeedsDrain, needDrainSymbol } from './internals.js';

/** The other side closed the connection unannounced. */
const hangUps: ReadonlySet<string | undefined> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

const onNewConnection = Symbol('onNewConnection');

/**
 * The options of a request that must not be lost to a server that closed its connection unseen: it goes out on a new connection. The
 * options carry this, because undici may pass on another handler than it was given.
 */
export function needingNewConnection(options: Dispatcher.DispatchOptions): Dispatcher.DispatchOptions {
  return { ...options, [onNewConnection]: true } as Dispatcher.DispatchOptions;
}

/** A handler that is told which connection its request was given to; it calls `answered` there when the response is complete. */
export interface PodRequest {
  onClient(client: PodClient): void;
}

/** Whether HTTP/2 was agreed on for this socket. */
export function isHttp2(socket: Socket): boolean {
  return (socket as TLSSocket).alpnProtocol === 'h2';
}

/** One connection of undici to a pod, without two defects of undici's Client. */
export class PodClient extends Client {
  readonly #pool: PodPool | undefined;
  #awaitsDrain = false;
  /** Whether the client got a request before its Pool knew that the last one was over, and was never idle since. */
  #hurried = false;
  /** The client's current or last socket, over HTTP/1.1. */
  readonly #socket: { current: Socket | undefined };
  /** Whether the client is in its Pool's list of answered clients, or of idle ones. The Pool writes both. */
  isListedAnswered = false;
  isListedRested = false;

  /** @param pool The client's Pool, if that is to learn what happens on the client. */
  constructor(origin: URL | string, options: Client.Options, pool?: PodPool) {
    const socket: { current: Socket | undefined } = { current: undefined };
    super(origin, { ...options, connect: keepingIn(socket, options.connect) });
    this.#socket = socket;
    this.#pool = pool;
    this.on('drain', () => {
      this.#awaitsDrain = false;
      this.#hurried = false;
      if (this.isFree) pool?.rested(this);
    });
    this.on('disconnect', (_origin, _targets, error?: Error & { readonly code?: string }) => {
      if (this.#hurried && hangUps.has(error?.code)) pool?.hungUp();
      this.#hurried = false;
    });
  }

  /** Sends a request before the `drain` of the last one. */
  hurry(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    this.#hurried = true;
    this.#pool?.dispatching();
    (handler as Partial<PodRequest>).onClient?.(this);
    // The `drain` of the last request is still to come, whatever this returns.
    super.dispatch(options, handler);
  }

  /**
   * undici's Client also returns false, "busy, wait for my drain", for a request it refused outright (because of a header with a line
   * break, say). No drain follows, and its Pool would never use it again: after a few refused requests no client is left, and
   * further requests wait forever. Seen in undici 7 and 8.
   */
  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.#pool?.dispatching();
    (handler as Partial<PodRequest>).onClient?.(this);
    const { [onNewConnection]: isLast } = options as { readonly [onNewConnection]?: boolean };
    // Without an idle connection the request waits for a new one.
    if (isLast && this.#canWrite) this.#socket.current?.destroy();
    if (super.dispatch(options, handler) || !isBusy(this)) return true;
    this.#awaitsDrain = true;
    return false;
  }

  /**
   * Whether it could write a request now although its Pool still waits for its drain: its last response is complete, but undici says
   * so only at the end of the turn.
   */
  get isFreeBeforeDrain(): boolean {
    return this.#awaitsDrain && this.#canWrite;
  }

  /** Whether the client could write a request now, and its Pool knows that. */
  get isFree(): boolean {
    return !this.#awaitsDrain && this.#canWrite;
  }

  /** The response to a request on this client is complete. */
  answered(): void {
    this.#pool?.answered(this);
  }

  get #canWrite(): boolean {
    return !this.closed && isConnected(this) && !isBusy(this);
  }
}

/** The connector of one client, which remembers its HTTP/1.1 socket, and may delay its end. */
function keepingIn(
  kept: { current: Socket | undefined },
  connect: Client.Options['connect'],
): buildConnector.connector {
  return (options, supplied) =>
    (connect as buildConnector.connector)(options, (...result) => {
      const [, socket] = result;
      kept.current = socket === null || isHttp2(socket) ? undefined : socket;
      if (kept.current !== undefined) holdEnd(kept.current);
      supplied(...result);
    });
}

/**
 * Delays the end of an HTTP/1.1 socket until undici has processed everything received before it. undici stops its
 * parser while a body is read slowly, even if only the end of the response is left to parse. If the pod hangs up then, undici fails a
 * response it has in full ("other side closed"): seen in 7.30 on Node 20, 24 and 26, and in 8.12 on Node 26. If the response lasts
 * until the pod hangs up, 7.30 throws an assertion that ends the process.
 */
function holdEnd(socket: Socket): void {
  const emit = socket.emit.bind(socket) as (event: string, ...values: unknown[]) => boolean;
  const read = socket.read.bind(socket);
  let isHeld = false;
  const tell = (): void => {
    if (!isHeld || isParserPaused(socket)) return;
    isHeld = false;
    // undici has released it meanwhile and no longer accepts an end.
    if (socket.destroyed) return;
    emit('end');
    socket.end();
  };
  socket.emit = (event: string, ...values: unknown[]): boolean => {
    if (event !== 'end' || !isParserPaused(socket)) return emit(event, ...values);
    isHeld = true;
    // Node would now end our side too and close the socket, and undici would continue without a response.
    socket.allowHalfOpen = true;
    // The parser asks for more data when it resumes.
    socket.read = (size?: number): unknown => {
      if (isHeld) queueMicrotask(tell);
      return read(size);
    };
    return true;
  };
}

/**
 * undici's Pool with a shortcut, `dispatchRepeatable`. A Pool learns at the end of the turn that a response is complete. A caller
 * usually sends its next request before that. A Pool then opens another connection, or queues the request if it has the maximum.
 * With the shortcut the request goes out on the connection that has just become free: fewer connections are open, and there is
 * no queueing, waking or searching. If none has become free, the one used last is taken, also without a search: in strict
 * rotation the next request goes to another pod, whose responses come at other times, and its Pool would search all busy clients.
 *
 * With a server that closes connections unannounced after its responses, every such request is lost. So only requests that are retried
 * when lost take the shortcut, and the first loss ends it for the lifetime of the Pool. All others (`dispatch`) get a connection that
 * has been idle since its last response, as in any Pool of undici.
 */
export class PodPool extends Pool {
  /**
   * Connections with a response that undici has not told the Pool of yet, and those it has told of; the latest last, so that few
   * connections do the work and the rest stays idle. Some may have got a request in another way since; that is checked in their turn.
   */
  readonly #answered: PodClient[] = [];
  readonly #rested: PodClient[] = [];
  /** How undici's Pool marks a client that has to drain. Undefined in versions that do it differently. */
  readonly #needDrain: symbol | undefined;
  /** Whether a request is passing through the Pool that no client has yet. */
  #entering = false;
  /** Requests queued in the Pool, which go first. */
  #queued = 0;
  #hurries = true;
  /** Decides which requests ask the pod for a load report. */
  readonly reportAsking: ReportAsking;

  constructor(origin: URL, options: Pool.Options, reportAsking: ReportAsking = new ReportAsking()) {
    const factory = (own: URL, client: object): PodClient => new PodClient(own, client, this);
    super(origin, { ...options, factory });
    this.reportAsking = reportAsking;
    this.#needDrain = needDrainSymbol(this);
    // A Pool drops a client that could not connect, and creates others.
    this.on('connectionError', (_origin, targets) => {
      drop(this.#answered, targets);
      drop(this.#rested, targets);
    });
    // Emitted when nothing is queued. A request that was refused on its way in is not counted any longer either.
    this.on('drain', () => {
      this.#queued = 0;
    });
  }

  /** Sends a request that is retried if it is lost. */
  dispatchRepeatable(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    // The Pool, for whose `drain` a caller would wait, is used only if there is none.
    if (this.#queued === 0) {
      const answered = this.#hurries ? this.#takeAnswered() : undefined;
      if (answered !== undefined) {
        answered.hurry(options, handler);
        return true;
      }
      const rested = this.#needDrain === undefined ? undefined : this.#takeRested();
      if (rested !== undefined) {
        this.#sendOn(rested, options, handler);
        return true;
      }
    }
    return this.dispatch(options, handler);
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.#entering = true;
    const more = super.dispatch(options, handler);
    if (this.#entering) this.#queued++;
    this.#entering = false;
    return more;
  }

  // The methods that follow are called by the clients of this pool.

  /** A response on `client` is complete; it can be reused once undici's callback has returned. */
  answered(client: PodClient): void {
    if (client.isListedAnswered) return;
    client.isListedAnswered = true;
    this.#answered.push(client);
  }

  /** A client is connected and emitted `drain`: it is free for undici too. */
  rested(client: PodClient): void {
    if (client.isListedRested) return;
    client.isListedRested = true;
    this.#rested.push(client);
  }

  /** The server closed a connection unannounced after a response, when another request had followed or was about to. */
  hungUp(): void {
    this.#hurries = false;
  }

  /** A client gets a request: the one that is passing through the Pool, or one that was queued. */
  dispatching(): void {
    if (this.#entering) this.#entering = false;
    else if (this.#queued > 0) this.#queued--;
  }

  #takeAnswered(): PodClient | undefined {
    for (let client = this.#answered.pop(); client !== undefined; client = this.#answered.pop()) {
      client.isListedAnswered = false;
      if (client.isFreeBeforeDrain) return client;
    }
    return undefined;
  }

  #takeRested(): PodClient | undefined {
    for (let client = this.#rested.pop(); client !== undefined; client = this.#rested.pop()) {
      client.isListedRested = false;
      if (client.isFree) return client;
    }
    return undefined;
  }

  /** How a Pool uses the client it has found. */
  #sendOn(client: PodClient, options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    if (client.dispatch(options, handler)) this.rested(client);
    else markNeedsDrain(client, this.#needDrain as symbol);
  }
}

function drop(clients: PodClient[], targets: readonly Dispatcher[]): void {
  const index = clients.findIndex((client) => targets.includes(client));
  if (index !== -1) clients.splice(index, 1);
}
