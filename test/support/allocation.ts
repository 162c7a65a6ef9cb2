import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
/** Collects what nothing refers to. */
export const collect = runInNewContext('gc') as () => void;

/**
 * Bytes allocated per call of `work`, once it is compiled. The young generation is emptied first and never fills while measuring, so
 * nothing is collected before it is counted. The minimum of several rounds counts, because the engine's own work (compiling, feedback)
 * can only add. Stops at the first round with at most `enough` bytes; on a busy machine compiling may take a while.
 */
export function bytesPerCall(work: () => void, enough: number, calls = 20_000, rounds = 200): number {
  for (let call = 0; call < 20_000; call++) work();
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds && least > enough; round++) {
    collect();
    const before = getHeapStatistics().used_heap_size;
    for (let call = 0; call < calls; call++) work();
    const grown = getHeapStatistics().used_heap_size - before;
    if (grown >= 0) least = Math.min(least, grown / calls);
  }
  return least;
}
