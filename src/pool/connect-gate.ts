/** Lets a bounded number of connection attempts run at once; the others wait their turn, first come first served. */
export class ConnectGate {
  readonly #limit: number;
  readonly #waiting = new Set<() => Promise<void>>();
  #running = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /**
   * Runs `attempt` when there is room; it holds its place until its promise settles and must not reject.
   * @returns Takes it out of the queue if it has not begun.
   */
  enter(attempt: () => Promise<void>): () => void {
    if (this.#running < this.#limit) {
      this.#run(attempt);
      return () => {};
    }
    this.#waiting.add(attempt);
    return () => {
      this.#waiting.delete(attempt);
    };
  }

  #run(attempt: () => Promise<void>): void {
    this.#running++;
    void attempt().finally(() => {
      this.#running--;
      const [next] = this.#waiting;
      if (next === undefined) return;
      this.#waiting.delete(next);
      this.#run(next);
    });
  }
}
