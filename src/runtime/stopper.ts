/**
 * Ends one wait early, for evenkeel's own waits. An AbortController does the same at many times the cost, and when thousands of calls wait,
 * nearly none of them is ever stopped.
 */
export class Stopper {
  /** Whether `stop` was called. */
  isStopped = false;
  /** Called when the wait must end. What waits sets this, and clears it when the wait is over. */
  onStop: (() => void) | undefined = undefined;
  #reason: unknown = undefined;

  /** What the wait rejects with: the argument of `stop`, by default an AbortError. */
  get reason(): unknown {
    this.#reason ??= new DOMException('This operation was aborted', 'AbortError');
    return this.#reason;
  }

  /** Ends the wait; does nothing the second time. */
  stop(reason?: unknown): void {
    if (this.isStopped) return;
    this.isStopped = true;
    this.#reason = reason;
    this.onStop?.();
  }
}
