/** Workers that read one time after another until they are stopped: which server answered, and what went wrong. */
export class Readers {
  /** Answers by server. */
  readonly answers: Map<number, number> = new Map();
  readonly errors: Error[] = [];
  #stopped = false;
  readonly #work: Promise<unknown>;

  /** @param read Reads once, and says which server answered. */
  constructor(read: () => Promise<number>, workers: number, total: number = Number.POSITIVE_INFINITY) {
    let left = total;
    const work = async (): Promise<void> => {
      while (!this.#stopped && left-- > 0) {
        try {
          const server = await read();
          this.answers.set(server, (this.answers.get(server) ?? 0) + 1);
        } catch (error) {
          this.errors.push(error as Error);
          // A cluster that is down fails at once: leave the others their turn.
          await new Promise((resolve) => setImmediate(resolve));
        }
      }
    };
    this.#work = Promise.all(Array.from({ length: workers }, work));
  }

  get total(): number {
    return [...this.answers.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Share of the answers since `before` that came from one server. */
  share(server: number, before: ReadonlyMap<number, number>): number {
    const since = (key: number): number => (this.answers.get(key) ?? 0) - (before.get(key) ?? 0);
    const all = [...this.answers.keys()].reduce((sum, key) => sum + since(key), 0);
    return all === 0 ? 0 : since(server) / all;
  }

  /** Waits for the rest. */
  async finished(): Promise<void> {
    await this.#work;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#work;
  }
}
