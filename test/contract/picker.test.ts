import { inFlight } from '../../src/load/in-flight.js';
import type { LoadFactory } from '../../src/load/load.js';
import { peakEwma } from '../../src/load/peak-ewma.js';
import { relativeLatency } from '../../src/load/relative-latency.js';
import { reported } from '../../src/load/reported.js';
import { hash } from '../../src/picker/hash.js';
import { leastLoaded, neverQueue, shortestExpectedDelay } from '../../src/picker/least-loaded.js';
import { p2c } from '../../src/picker/p2c.js';
import { random } from '../../src/picker/random.js';
import { rotatingAperture } from '../../src/picker/rotating-aperture.js';
import { roundRobin } from '../../src/picker/round-robin.js';
import { weightedRoundRobin } from '../../src/picker/weighted-round-robin.js';
import { type PickerContract, pickerContract } from './picker.js';

/**
 * Where the bounds come from. Of 20,000 picks the smallest share in the suite is 1 in 41 (490 picks).
 * - Drawn at random: a standard deviation of 1 / sqrt(490) = 4.5 %, so five of them are × 1.25.
 * - In turns: at most one call ahead or behind, 1 in 490; × 1.01. Turns that load may bring forward: × 1.03.
 * - Busy, by load: calls in flight are whole numbers. With one per endpoint, an endpoint whose share is half a call has
 *   none or one, so up to twice its share: × 2.
 */
const drawn = 1.25;
const turns = 1.01;
const turnsByLoad = 1.03;
const busy = 2;

const pickers: readonly Pick<PickerContract, 'name' | 'picker' | 'idleBound' | 'busyBound' | 'keyed'>[] = [
  { name: 'random', picker: random(), idleBound: drawn, busyBound: drawn },
  { name: 'roundRobin', picker: roundRobin(), idleBound: turns, busyBound: turns },
  { name: 'p2c', picker: p2c(), idleBound: drawn, busyBound: busy },
  { name: 'p2c of 4', picker: p2c({ choices: 4 }), idleBound: drawn, busyBound: busy },
  { name: 'leastLoaded', picker: leastLoaded(), idleBound: turnsByLoad, busyBound: busy },
  { name: 'weightedRoundRobin', picker: weightedRoundRobin(), idleBound: turns, busyBound: turns },
  {
    name: 'neverQueue',
    picker: neverQueue(),
    idleBound: turnsByLoad,
    busyBound: 'an idle endpoint gets the call whatever its weight',
  },
  {
    name: 'shortestExpectedDelay',
    picker: shortestExpectedDelay(),
    idleBound: 'the heaviest are always quickest for an idle client',
    busyBound: 'light endpoints are used only when the heavy ones have a queue',
  },
  { name: 'hash', picker: hash(), idleBound: drawn, busyBound: drawn, keyed: true },
  { name: 'hash by Maglev', picker: hash({ method: 'maglev' }), idleBound: drawn, busyBound: drawn, keyed: true },
  { name: 'hash, bounded', picker: hash({ maxLoadRatio: 1.25 }), idleBound: drawn, busyBound: busy, keyed: true },
  { name: 'hash without keys', picker: hash(), idleBound: drawn, busyBound: busy },
];

const loads: Record<string, LoadFactory> = {
  inFlight: inFlight(),
  peakEwma: peakEwma(),
  reported: reported(),
};

for (const picker of pickers) {
  for (const [loadName, load] of Object.entries(loads)) {
    pickerContract({ ...picker, name: `${picker.name} over ${loadName}`, load });
  }
}

pickerContract({
  name: 'rotatingAperture over relativeLatency',
  picker: rotatingAperture(),
  load: relativeLatency(),
  idleBound: drawn,
  busyBound: busy,
});
pickerContract({
  name: 'rotatingAperture over inFlight, which knows no latencies',
  picker: rotatingAperture(),
  load: inFlight(),
  idleBound: drawn,
  busyBound: busy,
});
