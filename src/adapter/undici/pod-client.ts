import { Client, type Dispatcher } from 'undici';

/** A getter of undici's Client, by the description of its symbol. Undefined in a version without it. */
const getterNamed = (name: string): symbol | undefined =>
  Object.getOwnPropertySymbols(Client.prototype).find(({ description }) => description === name);

/** Whether a request would have to wait; whether there is a connection that may be used again. */
const busySymbol = getterNamed('busy');
const connectedSymbol = getterNamed('connected');

/** One connection of a `PodPool`. */
export class PodClient extends Client {
  readonly #dispatching: (() => void) | undefined;
  #awaitsDrain = false;

  /** `dispatching` is called when a request is about to be given to it. */
  constructor(origin: URL | string, options: Client.Options, dispatching?: () => void) {
    super(origin, options);
    this.#dispatching = dispatching;
    this.on('drain', () => {
      this.#awaitsDrain = false;
    });
  }

  /**
   * undici's Client answers false, "busy, wait for my drain", also for a request it refused outright (a header with a
   * line break, say). No drain comes for that, and its Pool would never use it again: a few refused requests leave no
   * client at all, and all that follow wait for ever. Seen in undici 7 and 8.
   */
  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.#dispatching?.();
    if (super.dispatch(options, handler) || !this.#isBusy) return true;
    this.#awaitsDrain = true;
    return false;
  }

  /**
   * Whether it could write a request now though its Pool still waits for its drain: its last answer is complete, but
   * undici tells of that only at the end of the turn.
   */
  get isFreeBeforeDrain(): boolean {
    if (!this.#awaitsDrain || connectedSymbol === undefined) return false;
    return this.#state[connectedSymbol] === true && !this.#isBusy;
  }

  get #isBusy(): boolean {
    return busySymbol === undefined || this.#state[busySymbol] === true;
  }

  get #state(): Record<symbol, unknown> {
    return this as unknown as Record<symbol, unknown>;
  }
}
