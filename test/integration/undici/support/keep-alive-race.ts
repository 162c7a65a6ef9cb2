import type { Cluster } from './cluster.js';
import type { CallRecord, Tally } from './traffic.js';

/** After so long without a request the pods are to hang up, in ms. */
export const IDLE_MS = 50;
/** Requests of each method at once, so that each pod has several connections. */
export const BURST = 25;
/** Pauses go through these in turn: from well before the pods hang up to just after. In ms. */
const PAUSES = Array.from({ length: 16 }, (_, index) => IDLE_MS - 6 + index * 0.75);

/**
 * Bursts of GETs and POSTs by both, with pauses about as long as idle connections live; `wait` is to last until `endMs`.
 * Returns how many connections each pod has accepted.
 */
export async function race(
  { pods }: Cluster,
  { ours, theirs }: { readonly ours: Tally; readonly theirs: Tally },
  rounds: number,
  wait: (endMs: number) => Promise<void>,
): Promise<number[]> {
  for (let round = 0; round < rounds; round++) {
    const calls: Promise<void>[] = [];
    for (let index = 0; index < BURST; index++) {
      calls.push(ours.call('GET', `get-${round}-${index}`), ours.call('POST', `post-${round}-${index}`));
      calls.push(theirs.call('GET', `bare-get-${round}-${index}`), theirs.call('POST', `bare-post-${round}-${index}`));
    }
    await Promise.all(calls);
    await wait(performance.now() + (PAUSES[round % PAUSES.length] as number));
  }
  return Promise.all(pods.map(async (pod) => (await pod.stats()).connections));
}

/**
 * Both sides' failures are draws, and they come in bursts: a pod that closes several connections in one moment takes
 * what is on its way on all of them. So rounds are what is drawn. In each the two sides are equally likely to have more
 * failures if we are no worse than they, whatever the size of the bursts, and then the sum of the differences is above
 * 5.26 times the root of the sum of their squares less often than once in a million runs: exp(-5.26²/2), Hoeffding.
 */
export function worseByMoreThanChance(ours: readonly CallRecord[], theirs: readonly CallRecord[]): boolean {
  const differences = new Map<string, number>();
  const count = (failures: readonly CallRecord[], by: number): void => {
    for (const { id } of failures) {
      const round = id.split('-').at(-2) as string;
      differences.set(round, (differences.get(round) ?? 0) + by);
    }
  };
  count(ours, 1);
  count(theirs, -1);
  const sum = [...differences.values()].reduce((total, difference) => total + difference, 0);
  const squares = [...differences.values()].reduce((total, difference) => total + difference ** 2, 0);
  return sum > 5.26 * Math.sqrt(squares);
}

/**
 * A few rounds are not enough to be sure by rounds alone. Who sends on dead connections loses whole rounds, every second
 * one; bursts by chance, of a dozen at most, do not come to so many more than theirs.
 */
export const mayLose = (theirs: number, rounds: number): number => theirs + (rounds * BURST) / 8;
