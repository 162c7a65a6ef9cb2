import type { Cluster } from './cluster.js';
import type { Tally } from './traffic.js';

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
 * Failures are a matter of chance: the same cause twice does not give the same number. Both are draws, so that three
 * standard deviations are those of their difference.
 */
export const noMoreThan = (expected: number): number => expected + 3 * Math.sqrt(2 * expected + 1);
