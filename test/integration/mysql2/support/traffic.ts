import type { PoolCluster } from 'evenkeel/mysql2';

/** Whether the tests run at the counts that are promised (`npm run proof:mysql`), or at small ones (`npm test`). */
export const PROOF: boolean = process.env.EVENKEEL_PROOF === '1';

/** In a proof: prints what was measured, for the reader. */
export function report(what: string, figures: Readonly<Record<string, number | string>>): void {
  if (!PROOF) return;
  const words = Object.entries(figures).map(([name, value]) => `${name} ${value}`);
  console.log(`${what}: ${words.join(', ')}`);
}

/** Workers that send one statement after another until they are stopped: who answered, and what went wrong. */
export class Readers {
  /** Answers by `@@server_id`. */
  readonly answers: Map<number, number> = new Map();
  readonly errors: Error[] = [];
  #stopped = false;
  readonly #work: Promise<unknown>;

  constructor(cluster: Pick<PoolCluster, 'query'>, workers: number, total: number = Number.POSITIVE_INFINITY) {
    let left = total;
    const read = async (): Promise<void> => {
      while (!this.#stopped && left-- > 0) {
        try {
          const [rows] = await cluster.query<never[]>('SELECT @@server_id AS id');
          const { id } = rows[0] as unknown as { id: number };
          this.answers.set(id, (this.answers.get(id) ?? 0) + 1);
        } catch (error) {
          this.errors.push(error as Error);
          // A cluster that is down fails at once: leave the others their turn.
          await new Promise((resolve) => setImmediate(resolve));
        }
      }
    };
    this.#work = Promise.all(Array.from({ length: workers }, read));
  }

  get total(): number {
    return [...this.answers.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Share of the answers since `before` that came from one server. */
  share(id: number, before: ReadonlyMap<number, number>): number {
    const since = (key: number): number => (this.answers.get(key) ?? 0) - (before.get(key) ?? 0);
    const all = [...this.answers.keys()].reduce((sum, key) => sum + since(key), 0);
    return all === 0 ? 0 : since(id) / all;
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

/** The most a server answered against what all did on average. */
export function maxOverMean(answers: ReadonlyMap<number, number>): number {
  const counts = [...answers.values()];
  return Math.max(...counts) / (counts.reduce((sum, count) => sum + count, 0) / counts.length);
}
