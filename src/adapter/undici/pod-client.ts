import { Client, type Dispatcher } from 'undici';
import { RelayedController } from './relay.js';

/** A getter of undici's Client, by the description of its symbol. Undefined in a version without it. */
const getterNamed = (name: string): symbol | undefined =>
  Object.getOwnPropertySymbols(Client.prototype).find(({ description }) => description === name);

/** Whether a request would have to wait; whether there is a connection that may be used again. */
const busySymbol = getterNamed('busy');
const connectedSymbol = getterNamed('connected');

/** Ends of a connection by the other side, which did not say that it would. */
const hangUps: ReadonlySet<string | undefined> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

/** Who wants to know what becomes of a `PodClient`. */
export interface PodClientOwner {
  /** A request is about to be given to it. */
  dispatching(): void;
  /** The server hung up behind an answer, without saying so, when a request had followed at once or was about to. */
  hungUp(): void;
  /** An answer on `client` is complete; it may be used again once undici has returned from telling so. */
  answered(client: PodClient): void;
  /** Its drain came, and it is connected: `client` is free as undici sees it, too. */
  rested(client: PodClient): void;
}

/** A request that says when its answer is complete. */
export abstract class PodRequest extends RelayedController {
  /** The connection it was given to last. */
  client: PodClient | undefined = undefined;
}

/** One connection of a `PodPool`. */
export class PodClient extends Client {
  readonly #owner: PodClientOwner | undefined;
  #awaitsDrain = false;
  /** It got a request before its Pool knew that the last one was over, and had no rest since. */
  #hurried = false;
  /** Whether it is in the list of its Pool of those that answered; of those that rest. The Pool writes both. */
  isListedAnswered = false;
  isListedRested = false;

  constructor(origin: URL | string, options: Client.Options, owner?: PodClientOwner) {
    super(origin, options);
    this.#owner = owner;
    this.on('drain', () => {
      this.#awaitsDrain = false;
      this.#hurried = false;
      if (this.isFree) owner?.rested(this);
    });
    this.on('disconnect', (_origin, _targets, error?: Error & { readonly code?: string }) => {
      if (this.#hurried && hangUps.has(error?.code)) owner?.hungUp();
      this.#hurried = false;
    });
  }

  /** Sends a request before the drain of the last. */
  hurry(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    this.#hurried = true;
    this.dispatch(options, handler);
  }

  /**
   * undici's Client answers false, "busy, wait for my drain", also for a request it refused outright (a header with a
   * line break, say). No drain comes for that, and its Pool would never use it again: a few refused requests leave no
   * client at all, and all that follow wait for ever. Seen in undici 7 and 8.
   */
  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.#owner?.dispatching();
    if (handler instanceof PodRequest) handler.client = this;
    if (super.dispatch(options, handler) || !this.#isBusy) return true;
    this.#awaitsDrain = true;
    return false;
  }

  /**
   * Whether it could write a request now though its Pool still waits for its drain: its last answer is complete, but
   * undici tells of that only at the end of the turn.
   */
  get isFreeBeforeDrain(): boolean {
    return this.#awaitsDrain && this.#canWrite;
  }

  /** Whether it could write a request now, and its Pool knows. */
  get isFree(): boolean {
    return !this.#awaitsDrain && this.#canWrite;
  }

  /** The answer to a request that was sent on it is complete. */
  answered(): void {
    this.#owner?.answered(this);
  }

  get #canWrite(): boolean {
    if (connectedSymbol === undefined || this.closed) return false;
    return this.#state[connectedSymbol] === true && !this.#isBusy;
  }

  get #isBusy(): boolean {
    return busySymbol === undefined || this.#state[busySymbol] === true;
  }

  get #state(): Record<symbol, unknown> {
    return this as unknown as Record<symbol, unknown>;
  }
}
