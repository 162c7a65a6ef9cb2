import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/**
 * Bytes allocated per call of `work`, once it is compiled. The young generation is emptied first and never fills while
 * measuring, so nothing allocated is collected before it is counted; the least of several rounds is taken, since the
 * engine's own work (compiling, feedback) can only add.
 */
export function bytesPerCall(work: () => void, calls = 20_000, rounds = 8): number {
  for (let call = 0; call < 100_000; call++) work();
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds; round++) {
    collect();
    const before = getHeapStatistics().used_heap_size;
    for (let call = 0; call < calls; call++) work();
    const grown = getHeapStatistics().used_heap_size - before;
    if (grown >= 0) least = Math.min(least, grown / calls);
  }
  return least;
}
