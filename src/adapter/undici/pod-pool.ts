import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { type buildConnector, Client, type Dispatcher, Pool } from 'undici';
import { PodSignals } from '../http/pod-signals.js';
import {
  holdUntilSettings,
  isBusy,
  isConnected,
  isParserPaused,
  markNeedsDrain,
  needDrainSymbol,
} from './internals.js';

/** The error codes of a connection that the other side closed without notice. */
const hangUps: ReadonlySet<string | undefined> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

const onNewConnection = Symbol('onNewConnection');

/**
 * Marks a request that must go out on a new connection, so that it is not lost to a pod that closed an idle one unseen. The mark is in the
 * options, because undici may pass on a different handler.
 */
export function needingNewConnection(options: Dispatcher.DispatchOptions): Dispatcher.DispatchOptions {
  return { ...options, [onNewConnection]: true } as Dispatcher.DispatchOptions;
}

/**
 * A handler that is notified which connection its request was given to. It calls `responseEnded` of that connection when the response is
 * complete.
 */
export interface PodRequest {
  onClient(client: PodClient): void;
}

/** Whether client and pod agreed on HTTP/2 for this socket. */
export function isHttp2(socket: Socket): boolean {
  return (socket as TLSSocket).alpnProtocol === 'h2';
}

/** One connection of undici to a pod: undici's Client without two of its defects. */
export class PodClient extends Client {
  readonly #pool: PodPool | undefined;
  #awaitsDrain = false;
  /** Whether the client got a request before its Pool knew that the last one was over, and has not been idle since. */
  #usedBeforeDrain = false;
  /** The client's current or last socket, if that speaks HTTP/1.1. */
  readonly #socket: { current: Socket | undefined };
  /** Whether the client is in its Pool's list of clients with a complete response, or in its list of idle clients. The Pool writes both. */
  isListedFreed = false;
  isListedIdle = false;

  /** @param pool The client's Pool, if the Pool is to be notified of what happens on the client. */
  constructor(origin: URL | string, options: Client.Options, pool?: PodPool) {
    const socket: { current: Socket | undefined } = { current: undefined };
    const opened = (next: Socket): void => {
      socket.current = isHttp2(next) ? undefined : next;
      if (isHttp2(next)) holdUntilSettings(this);
      else holdEnd(next);
    };
    super(origin, { ...options, connect: telling(opened, options.connect) });
    this.#socket = socket;
    this.#pool = pool;
    this.on('drain', () => {
      this.#awaitsDrain = false;
      this.#usedBeforeDrain = false;
      if (this.isFree) pool?.becameIdle(this);
    });
    this.on('disconnect', (_origin, _targets, error?: Error & { readonly code?: string }) => {
      if (this.#usedBeforeDrain && hangUps.has(error?.code)) pool?.closedAfterReuse();
      this.#usedBeforeDrain = false;
    });
  }

  /** Sends a request before undici has emitted the `drain` of the last one. */
  dispatchBeforeDrain(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    this.#usedBeforeDrain = true;
    this.#pool?.dispatching();
    (handler as Partial<PodRequest>).onClient?.(this);
    // The result is ignored, because the `drain` of the last request is still to come in any case.
    super.dispatch(options, handler);
  }

  /**
   * Sends a request. undici's Client also returns false ("busy, wait for my drain") for a request it refused outright (because of a header
   * with a line break, say). No drain follows, and its Pool would never use the client again: after a few refused requests no client is
   * left, and further requests wait forever. Seen in undici 7 and 8.
   */
  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.#pool?.dispatching();
    (handler as Partial<PodRequest>).onClient?.(this);
    const { [onNewConnection]: isLast } = options as { readonly [onNewConnection]?: boolean };
    // The idle connection is destroyed, so that the request waits for a new one.
    if (isLast && this.#canWrite) this.#socket.current?.destroy();
    if (super.dispatch(options, handler) || !isBusy(this)) return true;
    this.#awaitsDrain = true;
    return false;
  }

  /**
   * Whether the client could write a request now although its Pool still waits for its drain: the last response is complete, but undici
   * emits `drain` only at the end of the turn.
   */
  get isFreeBeforeDrain(): boolean {
    return this.#awaitsDrain && this.#canWrite;
  }

  /** Whether the client could write a request now, and its Pool knows that. */
  get isFree(): boolean {
    return !this.#awaitsDrain && this.#canWrite;
  }

  /** The response to a request on this client is complete. */
  responseEnded(): void {
    this.#pool?.responseEnded(this);
  }

  get #canWrite(): boolean {
    return !this.closed && isConnected(this) && !isBusy(this);
  }
}

/** A connector that calls `opened` with each socket before its client gets it. */
function telling(opened: (socket: Socket) => void, connect: Client.Options['connect']): buildConnector.connector {
  return (options, supplied) =>
    (connect as buildConnector.connector)(options, (...result) => {
      const [, socket] = result;
      if (socket !== null) opened(socket);
      supplied(...result);
    });
}

/**
 * Delays the `end` event of an HTTP/1.1 socket until undici has processed everything received before it. undici stops its parser while a
 * body is read slowly, even if only the end of the response is left to parse. If the pod hangs up then, undici fails a response it has in
 * full ("other side closed"): seen in 7.30 on Node 20, 24 and 26, and in 8.12 on Node 26. If the response lasts until the pod hangs up,
 * 7.30 throws an assertion that ends the process.
 */
function holdEnd(socket: Socket): void {
  const emit = socket.emit.bind(socket) as (event: string, ...values: unknown[]) => boolean;
  const read = socket.read.bind(socket);
  let isHeld = false;
  const emitEnd = (): void => {
    if (!isHeld || isParserPaused(socket)) return;
    isHeld = false;
    // undici has released the socket meanwhile and no longer accepts its end.
    if (socket.destroyed) return;
    emit('end');
    socket.end();
  };
  socket.emit = (event: string, ...values: unknown[]): boolean => {
    if (event !== 'end' || !isParserPaused(socket)) return emit(event, ...values);
    isHeld = true;
    // Otherwise Node would end our side too and close the socket, and undici would continue without a response.
    socket.allowHalfOpen = true;
    // undici's parser reads more data when it resumes, which is the moment to emit the end.
    socket.read = (size?: number): unknown => {
      if (isHeld) queueMicrotask(emitEnd);
      return read(size);
    };
    return true;
  };
}

/**
 * undici's Pool with a shortcut, `dispatchRepeatable`. undici's Pool learns at the end of the turn that a response is complete, but a
 * caller usually sends its next request before that. The Pool then opens another connection, or queues the request if it has the maximum.
 * With the shortcut the request goes out on the connection that has just become free: fewer connections are open, and there is no queueing,
 * waking or searching. If none has just become free, the idle connection used last is taken, also without a search: in strict rotation the
 * next request goes to another pod, whose responses come at other times, and its Pool would search all busy clients.
 *
 * With a pod that closes connections unannounced after its responses, every request on the shortcut is lost. So only requests that are
 * retried when lost take the shortcut, and the first loss ends it for the lifetime of the Pool. All others (`dispatch`) get a connection
 * that has been idle since its last response, as in any Pool of undici.
 */
export class PodPool extends Pool {
  /**
   * Connections whose response is complete although undici's Pool has not been notified, and connections the Pool knows to be idle. The
   * latest is last, so that few connections do the work and the rest stays idle. A listed connection may have got another request since;
   * that is checked when it is taken.
   */
  readonly #freed: PodClient[] = [];
  readonly #idle: PodClient[] = [];
  /** The property by which undici's Pool marks a client that has to drain. Undefined in versions that do this differently. */
  readonly #needDrain: symbol | undefined;
  /** Whether a request is passing through the Pool that no client has received yet. */
  #entering = false;
  /** How many requests are queued in the Pool. They go before any request on the shortcut. */
  #queued = 0;
  #usesBeforeDrain = true;
  readonly signals: PodSignals;

  constructor(origin: URL, options: Pool.Options, signals: PodSignals = new PodSignals(() => [])) {
    const factory = (own: URL, client: object): PodClient => new PodClient(own, client, this);
    super(origin, { ...options, factory });
    this.signals = signals;
    this.#needDrain = needDrainSymbol(this);
    // undici's Pool drops a client that could not connect, and creates another.
    this.on('connectionError', (_origin, targets) => {
      drop(this.#freed, targets);
      drop(this.#idle, targets);
    });
    // The Pool emits `drain` when it has no queue. This also ends the counting of requests that were refused on their way in.
    this.on('drain', () => {
      this.#queued = 0;
    });
  }

  /** Sends a request that is retried if it is lost, on the shortcut if possible. */
  dispatchRepeatable(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    // The shortcut is only taken while the Pool has no queue, because a queued request goes first.
    if (this.#queued === 0) {
      const freed = this.#usesBeforeDrain ? this.#takeFreed() : undefined;
      if (freed !== undefined) {
        freed.dispatchBeforeDrain(options, handler);
        return true;
      }
      const idle = this.#needDrain === undefined ? undefined : this.#takeIdle();
      if (idle !== undefined) {
        this.#sendOn(idle, options, handler);
        return true;
      }
    }
    return this.dispatch(options, handler);
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.#entering = true;
    const mayDispatch = super.dispatch(options, handler);
    if (this.#entering) this.#queued++;
    this.#entering = false;
    return mayDispatch;
  }

  // The clients of this pool call the methods that follow.

  /** A response on `client` is complete; the client can be reused once undici's callback has returned. */
  responseEnded(client: PodClient): void {
    if (client.isListedFreed) return;
    client.isListedFreed = true;
    this.#freed.push(client);
  }

  /** A connected client emitted `drain`, so that it is free for undici too. */
  becameIdle(client: PodClient): void {
    if (client.isListedIdle) return;
    client.isListedIdle = true;
    this.#idle.push(client);
  }

  /** The pod closed a connection unannounced after a response, when another request had followed or was about to. */
  closedAfterReuse(): void {
    this.#usesBeforeDrain = false;
  }

  /** A client gets a request: the one that is passing through the Pool, or one from its queue. */
  dispatching(): void {
    if (this.#entering) this.#entering = false;
    else if (this.#queued > 0) this.#queued--;
  }

  #takeFreed(): PodClient | undefined {
    for (let client = this.#freed.pop(); client !== undefined; client = this.#freed.pop()) {
      client.isListedFreed = false;
      if (client.isFreeBeforeDrain) return client;
    }
    return undefined;
  }

  #takeIdle(): PodClient | undefined {
    for (let client = this.#idle.pop(); client !== undefined; client = this.#idle.pop()) {
      client.isListedIdle = false;
      if (client.isFree) return client;
    }
    return undefined;
  }

  /** Sends a request on a client, with the bookkeeping of undici's Pool for a client that it found. */
  #sendOn(client: PodClient, options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    if (client.dispatch(options, handler)) this.becameIdle(client);
    else markNeedsDrain(client, this.#needDrain as symbol);
  }
}

function drop(clients: PodClient[], targets: readonly Dispatcher[]): void {
  const index = clients.findIndex((client) => targets.includes(client));
  if (index !== -1) clients.splice(index, 1);
}
