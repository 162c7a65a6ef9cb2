import { AsyncResource } from 'node:async_hooks';
import type { TraceChannels } from './traces.js';

type Wrap = (run: () => void) => void;

const inBackground = { requireManualDestroy: true };

/**
 * One operation on the channels of a `TracingChannel`: `start` around its synchronous part, then `end`, and when the operation is over
 * `error` if it failed, `asyncStart` and `asyncEnd`. Later work of the operation runs in the async context of its start.
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

  /** Whether the operation has ended: nothing more is published about it. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** To be called from within `start`: the rest of the operation runs inside `wrap`. */
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

  /** Runs `work` in the async context of the operation's start. */
  run<T>(work: () => T): T {
    return this.#context === undefined ? work() : this.#context.runInAsyncScope(work);
  }

  /** The operation has ended. Calls of this method after the first do nothing. */
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
 * Runs `work` once, inside all of `wraps`, even if one of them throws or does not call it. Like errors of subscribers, errors of `wraps`
 * are uncaught.
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
