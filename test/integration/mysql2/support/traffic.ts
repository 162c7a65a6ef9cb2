import type { PoolCluster } from 'evenkeel/mysql2';
import { Readers } from '../../../support/readers.js';

/** Whether the tests run at the counts that are promised (`npm run proof -- mysql`), or at small ones (`npm test`). */
export const PROOF: boolean = process.env.EVENKEEL_PROOF === '1';

/** In a proof: prints what was measured, for the reader. */
export function report(what: string, figures: Readonly<Record<string, number | string>>): void {
  if (!PROOF) return;
  const words = Object.entries(figures).map(([name, value]) => `${name} ${value}`);
  console.log(`${what}: ${words.join(', ')}`);
}

/** Readers by `@@server_id`. */
export function readers(cluster: Pick<PoolCluster, 'query'>, workers: number, total?: number): Readers {
  const read = async (): Promise<number> => {
    const [rows] = await cluster.query<never[]>('SELECT @@server_id AS id');
    return (rows[0] as unknown as { id: number }).id;
  };
  return new Readers(read, workers, total);
}

/** The most a server answered against what all did on average. */
export function maxOverMean(answers: ReadonlyMap<number, number>): number {
  const counts = [...answers.values()];
  return Math.max(...counts) / (counts.reduce((sum, count) => sum + count, 0) / counts.length);
}
