import { describe, expect, it } from 'vitest';
import { fixed } from '../../src/limit/fixed.js';
import { Random32 } from '../../src/runtime/random32.js';
import { PROOF, SEEDS } from './lib/proof.js';
import { RefusingServer } from './lib/refusing-server.js';
import { around, exponential, lognormal, Server, type ServiceTime } from './lib/server.js';
import { oneCore, SharedServer } from './lib/shared-server.js';
import { VirtualClock } from './lib/virtual-clock.js';

const CALLS = PROOF ? 1_000_000 : 100_000;
/** Mean work of a call, in ms. */
const WORK = 20;
/** How far a mean may be from the theory: four standard errors of the noisiest case. */
const WITHIN = PROOF ? 0.04 : 0.09;

interface Taking {
  take(reply: (answer: unknown) => void): () => void;
}
type MakeServer = (clock: VirtualClock, workMs: ServiceTime, rng: Random32) => Taking;

const queue =
  (workers: number): MakeServer =>
  (clock, workMs, rng) =>
    new Server('10.0.0.1', clock, rng, workMs, workers);
const refusing =
  (workers: number): MakeServer =>
  (clock, workMs, rng) =>
    new RefusingServer(
      new Server('10.0.0.1', clock, rng, workMs, Number.POSITIVE_INFINITY),
      clock,
      fixed(workers, { shedAfterMs: Number.POSITIVE_INFINITY }),
    );
const shared =
  (cores: number, speed = 1): MakeServer =>
  (clock, workMs, rng) => {
    const server = new Server('10.0.0.1', clock, rng, workMs, Number.POSITIVE_INFINITY);
    return new SharedServer(server, clock, rng, workMs, { ...oneCore, allocated: cores, speed, cores: () => cores });
  };
/** Calls that come at random (Poisson), and take so long on average. `patience`: after how long a caller gives up. */
async function meanResponse(
  make: MakeServer,
  workMs: ServiceTime,
  callsPerMs: number,
  seed: number,
  patience?: ServiceTime,
): Promise<{ readonly meanMs: number; readonly gaveUp: number }> {
  const clock = new VirtualClock();
  const arrivals = new Random32(seed);
  const server = make(clock, workMs, new Random32(seed + 1_000));
  let [begun, over, sumMs, gaveUp] = [0, 0, 0, 0];
  const next = (): void => {
    clock.at(clock.now() - Math.log(1 - arrivals.next()) / callsPerMs, () => {
      const atMs = clock.now();
      let isOver = false;
      const end = (): void => {
        isOver = true;
        over++;
        sumMs += clock.now() - atMs;
      };
      const leave = server.take(() => !isOver && end());
      clock.disturb();
      if (patience !== undefined) {
        clock.at(atMs + patience(arrivals), () => {
          if (isOver) return;
          gaveUp++;
          leave();
          end();
        });
      }
      if (++begun < CALLS) next();
    });
  };
  next();
  await clock.run(Number.MAX_SAFE_INTEGER);
  expect(over).toBe(CALLS);
  return { meanMs: sumMs / over, gaveUp: gaveUp / over };
}

/** Mean time in M/M/c, where one server takes `WORK` on average. Source: Erlang C. */
function erlangC(servers: number, load: number): number {
  const offered = servers * load;
  let term = 1;
  let sum = 0;
  for (let n = 0; n < servers; n++) {
    sum += term;
    term *= offered / (n + 1);
  }
  const waits = term / (1 - load) / (sum + term / (1 - load));
  return WORK + (waits * WORK) / (servers * (1 - load));
}

/** The square of the coefficient of variation. */
const lognormalCv2 = Math.exp(1) - 1;
const works: readonly [string, ServiceTime, number][] = [
  ['constant', around(WORK, 0), 0],
  ['exponential', exponential(WORK), 1],
  ['lognormal, σ = 1', lognormal(WORK, 1), lognormalCv2],
];

describe.each(SEEDS)('each kind of simulated server answers as queueing theory says (seed %i)', (seed) => {
  const check = async (
    make: MakeServer,
    work: ServiceTime,
    callsPerMs: number,
    expectedMs: number,
    within = WITHIN,
  ): Promise<void> => {
    const { meanMs } = await meanResponse(make, work, callsPerMs, seed);
    expect(meanMs / expectedMs).toBeGreaterThan(1 - within);
    expect(meanMs / expectedMs).toBeLessThan(1 + within);
  };

  describe.each(works)('%s work', (_name, work, cv2) => {
    it.each([0.3, 0.667, 0.8])(
      'processor sharing at load %d: work / (1 − ρ), whatever the distribution',
      async (load) => {
        await check(shared(1), work, load / WORK, WORK / (1 - load));
        // At half the speed all takes twice as long.
        await check(shared(1, 0.5), work, load / WORK / 2, (2 * WORK) / (1 - load));
      },
    );

    it('processor sharing by four cores: as M/M/4, whatever the distribution', async () => {
      await check(shared(4), work, (4 * 0.8) / WORK, erlangC(4, 0.8));
    });

    it('one worker, first come first served: M/G/1 (Pollaczek, Khinchine)', async () => {
      const load = 0.6;
      const expectedMs = WORK + (load * WORK * (1 + cv2)) / (2 * (1 - load));
      await check(queue(1), work, load / WORK, expectedMs);
    });

    it('without limit nothing waits: M/G/∞', async () => {
      await check(queue(Number.POSITIVE_INFINITY), work, 1, WORK);
    });
  });

  it('four workers: M/M/4', async () => {
    for (const make of [queue(4), refusing(4)]) {
      await check(make, exponential(WORK), (4 * 0.8) / WORK, erlangC(4, 0.8));
    }
  });

  it('callers who give up free shared capacity: M/M/1 + M, processor sharing', async () => {
    const load = 1.1;
    const patienceMs = 5 * WORK;
    // Birth and death: those that wait (or all that share) leave at 1 / patience each.
    const expected = (leaving: (present: number) => number): { meanMs: number; gaveUp: number } => {
      let [probability, total, present, lost] = [1, 1, 0, 0];
      for (let n = 1; n < 2_000; n++) {
        probability *= load / (1 + (leaving(n) * WORK) / patienceMs);
        total += probability;
        present += n * probability;
        lost += leaving(n) * probability;
      }
      const arrivals = load / WORK;
      return { meanMs: present / total / arrivals, gaveUp: lost / total / patienceMs / arrivals };
    };
    const impatient = exponential(patienceMs);
    const sharing = await meanResponse(shared(1), exponential(WORK), load / WORK, seed, impatient);
    const all = expected((n) => n);
    expect(sharing.meanMs / all.meanMs).toBeCloseTo(1, 1);
    expect(sharing.gaveUp / all.gaveUp).toBeCloseTo(1, 1);
  });
});
