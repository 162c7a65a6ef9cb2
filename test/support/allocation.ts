import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/**
 * Bytes allocated per call of `work`, once it is compiled. The young generation is emptied first and never fills while
 * measuring, so nothing allocated is collected before it is counted; the least of several rounds is taken, since the
 * engine's own work (compiling, feedback) can only add. The first round with no more than `enough` is the last; on a busy
 * machine it may take long until the engine has had the time to compile.
 */
export function bytesPerCall(work: () => void, enough: number, calls = 20_000, rounds = 200): number {
  for (let call = 0; call < 100_000; call++) work();
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
