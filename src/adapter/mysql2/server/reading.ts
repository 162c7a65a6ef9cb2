import type { Clock, Timer } from '../../../index.js';

/** The command object mysql2 returns, as one without a callback is used: by its events. */
export interface ReadCommand {
  on(event: string, listener: (...given: never[]) => void): unknown;
  once(event: string, listener: (...given: never[]) => void): unknown;
  emit(event: string, ...given: unknown[]): boolean;
}

/** What the reading of one answer goes by. */
export interface ReadingParts {
  readonly clock: Clock;
  /** How long nothing may come, in ms; Infinity = no limit. */
  readonly limitMs: number;
  /** Whether the reader asked for a pause: then nothing can come. */
  readonly isPaused: () => boolean;
  /** Nothing came for so long. */
  readonly tookTooLong: () => void;
}

/**
 * The answer to a statement whose user reads it by events, or by a stream of them. mysql2 tells such a reader neither of
 * the end of its connection nor of a time-out; this does.
 */
export class Reading {
  readonly #command: ReadCommand;
  #timer: Timer | undefined;
  #heardAtMs: number;
  #isOver = false;

  /** @param over Called once: the answer was read to its end, or failed. */
  constructor(command: ReadCommand, { clock, limitMs, isPaused, tookTooLong }: ReadingParts, over: () => void) {
    this.#command = command;
    this.#heardAtMs = clock.now();
    command.on('error', () => this.#end());
    command.once('end', () => {
      this.#end();
      over();
    });
    if (!Number.isFinite(limitMs)) return;
    const heard = (): void => {
      this.#heardAtMs = clock.now();
    };
    command.on('fields', heard);
    command.on('result', heard);
    const look = (): void => {
      if (isPaused()) heard();
      const restMs = this.#heardAtMs + limitMs - clock.now();
      if (restMs > 0) this.#timer = clock.timer(look, restMs);
      else tookTooLong();
    };
    this.#timer = clock.timer(look, limitMs);
  }

  /** Its connection is gone: the reader hears of the error, then of the end, as of an error the server answers with. */
  fail(error: Error): void {
    if (this.#isOver) return;
    this.#end();
    this.#command.emit('error', error);
    this.#command.emit('end');
  }

  #end(): void {
    this.#isOver = true;
    this.#timer?.cancel();
  }
}
