import { Dispatcher, errors } from 'undici';
import type { EventSourceOptions, Fallback } from './fallback.js';
import type { WebSocketLimits } from './options.js';

/** Events that an undici dispatcher emits about its connections. */
export type ForwardedEvent = 'connect' | 'disconnect' | 'connectionError' | 'drain';

/**
 * The base class of evenkeel's dispatchers. It maps all forms of undici's `close` and `destroy` to `finish` and `cut`, and forwards the
 * events of the dispatchers inside. It is an AsyncDisposable.
 */
export abstract class EndingDispatcher extends Dispatcher {
  /** Settles when the dispatcher has ended; set once `close` or `destroy` was called. */
  protected ending: Promise<void> | undefined;
  /** The dispatcher for requests to other origins; undici's own clients read the settings of a dispatcher from here. */
  protected abstract readonly fallback: Fallback;
  #closed = false;
  #destroyed = false;

  constructor() {
    super();
    bindMethods(this, ['close', 'destroy', Symbol.asyncDispose]);
  }

  /** Whether `close` was called. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Whether `destroy` was called, or everything that ran at `close` has ended. */
  get destroyed(): boolean {
    return this.#destroyed;
  }

  /** The limits of WebSockets, which undici's WebSocket reads from its dispatcher. */
  get webSocketOptions(): WebSocketLimits {
    return this.fallback.webSocketOptions;
  }

  /** The options of EventSources, which undici's EventSource reads from its dispatcher. */
  get eventSourceOptions(): EventSourceOptions | undefined {
    return this.fallback.eventSourceOptions;
  }

  /** Whether a mock answers, which undici's `fetch` reads from its dispatcher. */
  get isMockActive(): boolean {
    return this.fallback.isMockActive;
  }

  /** Stops accepting requests; resolves when all running requests have ended. Never rejects. */
  protected abstract finish(): Promise<void>;

  /** Ends running requests with `error`, even while `finish` waits for them; resolves when they have ended. Never rejects. */
  protected abstract cut(error: Error | null): Promise<void>;

  override close(): Promise<void>;
  override close(callback: () => void): void;
  override close(callback?: () => void): Promise<void> | void {
    checkCallback(callback);
    this.#closed = true;
    this.ending ??= this.finish().then(() => {
      this.#destroyed = true;
    });
    return answer(this.ending, callback);
  }

  override destroy(): Promise<void>;
  override destroy(error: Error | null): Promise<void>;
  override destroy(callback: () => void): void;
  override destroy(error: Error | null, callback: () => void): void;
  override destroy(error?: Error | null | (() => void), callback?: () => void): Promise<void> | void {
    const done = typeof error === 'function' ? error : callback;
    checkCallback(done);
    this.#destroyed = true;
    const ended = this.cut(typeof error === 'function' ? null : (error ?? null));
    this.ending ??= ended;
    return answer(ended, done);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * Emits `drain`. What a listener throws is emitted as an error, because the request that waited last has yet to be sent. An undici Agent or
   * pool in front of this dispatcher reads the targets of the event.
   */
  protected emitDrain(origin: URL): void {
    try {
      this.emit('drain' as 'connect', origin, [this]);
    } catch (error) {
      this.handlerThrew(error);
    }
  }

  /** Emits the error of a handler or listener as undici's Client does, but not in the middle of other work. */
  handlerThrew(error: unknown): void {
    queueMicrotask(() => {
      if (!this.emit('error' as never, error as never)) throw error;
    });
  }

  /** Emits the events of the dispatcher `from`, and adds this dispatcher to their targets. */
  protected forward(from: Dispatcher, events: readonly ForwardedEvent[]): void {
    for (const event of events) {
      from.on(event as 'disconnect', (origin, targets, error) => {
        this.emit(event as 'disconnect', origin, [this, ...targets], error);
      });
    }
  }
}

/**
 * Binds methods to their object: undici's `compose` returns a Proxy that calls methods with itself as `this`, and the Proxy has no private
 * fields.
 */
export function bindMethods(object: object, names: readonly PropertyKey[]): void {
  for (const name of names) {
    const method = Reflect.get(object, name) as (...values: unknown[]) => unknown;
    Object.defineProperty(object, name, { value: method.bind(object), writable: true, configurable: true });
  }
}

function checkCallback(callback: unknown): void {
  if (callback === undefined || typeof callback === 'function') return;
  throw new errors.InvalidArgumentError('invalid callback');
}

function answer(ended: Promise<void>, callback: (() => void) | undefined): Promise<void> | void {
  if (callback === undefined) return ended;
  void ended.then(callback);
}
