import { AsyncResource } from 'node:async_hooks';
import type { TraceChannels } from './traces.js';

type Wrap = (run: () => void) => void;

const inBackground = { requireManualDestroy: true };

/**
 * Publishes one operation on the channels of a `TracingChannel`: `start` and `end` around its synchronous part, and when the operation is
 * over, `error` if it failed, then `asyncStart` and `asyncEnd`. Later parts of the operation run in the async context of its start.
 */
export class TraceScope {
  readonly #channels: TraceChannels;
  readonly #message: object;
  #context: AsyncResource | undefined;
  #wraps: Wrap[] = [];
  #isStarting = false;
  #isOver = false;
  #error: unknown;

  constructor(channels: TraceChannels, message: object) {
    this.#channels = channels;
    this.#message = message;
  }

  /** Whether the operation has ended, so that nothing more is published about it. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Makes the rest of the operation run inside `wrap`. To be called by subscribers of `start`. */
  around(wrap: Wrap): void {
    this.#wraps.push(wrap);
  }

  start<T>(work: () => T): T {
    const { start, end } = this.#channels;
    this.#isStarting = true;
    try {
      return start.runStores(this.#message, () =>
        inside(this.#wraps, () => {
          this.#wraps = [];
          this.#context = new AsyncResource('evenkeel', inBackground);
          return work();
        }),
      );
    } finally {
      this.#isStarting = false;
      end.publish(this.#message);
      if (this.#isOver) this.#publishEnd();
    }
  }

  /** Runs `work` in the async context in which the operation started. */
  run<T>(work: () => T): T {
    return this.#context === undefined ? work() : this.#context.runInAsyncScope(work);
  }

  /** Ends the operation. Further calls of this method do nothing. */
  end(error: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#error = error;
    if (!this.#isStarting) this.#publishEnd();
  }

  #publishEnd(): void {
    const { error, asyncStart, asyncEnd } = this.#channels;
    const message = this.#message;
    this.run(() => {
      if (this.#error !== undefined) error.publish(message);
      asyncStart.runStores(message, () => asyncEnd.publish(message));
    });
  }
}

/**
 * Runs `work` once, inside all of `wraps`, even if one of them throws or does not call its argument. An error of a wrap becomes an uncaught
 * exception, as an error of a subscriber does.
 */
function inside<T>(wraps: readonly Wrap[], work: () => T): T {
  if (wraps.length === 0) return work();
  let result: { readonly value: T } | { readonly error: unknown } | undefined;
  let run = (): void => {
    if (result !== undefined) return;
    result = { error: undefined };
    try {
      result = { value: work() };
    } catch (error) {
      result = { error };
    }
  };
  for (const wrap of wraps) {
    const inner = run;
    run = () => {
      try {
        wrap(inner);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
      inner();
    };
  }
  run();
  const done = result as unknown as { readonly value: T } | { readonly error: unknown };
  if ('error' in done) throw done.error;
  return done.value;
}
