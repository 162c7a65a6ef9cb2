import type { Rng } from 'evenkeel';
import { expect } from 'vitest';
import { Pod, type PodBehaviour, type Pods } from '../../../support/pods/pods.js';
import { until } from '../../../support/until.js';

/** Who calls at once. */
const CALLERS = 24;

/** What `chaos` is made of. */
export interface ChaosParts {
  /** Three of them. */
  readonly pods: Pods;
  readonly rng: Rng;
  /** One request, somehow; rejects when it fails. */
  readonly call: (signal: AbortSignal) => Promise<void>;
  /** How long a caller waits who does not give up early, in ms; undefined = for ever. */
  readonly patienceMs: number | undefined;
  readonly disturbances: number;
}

/**
 * Callers call, give up and pause at random, while pods reset and end their connections, freeze, die and come back.
 * After each disturbance calls have to succeed again; at the end every call has to end.
 */
export async function chaos({ pods, rng, call, patienceMs, disturbances }: ChaosParts): Promise<void> {
  const calm: PodBehaviour = { idleMs: 60, delayMs: 10 };
  for (const pod of pods.all) await pod.behave(calm);
  const chance = (share: number): boolean => rng.next() < share;

  let stopped = false;
  let running = 0;
  let succeeded = 0;
  const work = async (): Promise<void> => {
    while (!stopped) {
      const caller = new AbortController();
      const limitMs = chance(0.2) ? rng.next() * 30 : patienceMs;
      const patience = limitMs === undefined ? undefined : setTimeout(() => caller.abort(), limitMs);
      running++;
      await call(caller.signal).then(
        () => succeeded++,
        () => {},
      );
      running--;
      clearTimeout(patience);
      if (chance(0.2)) await new Promise((resolve) => setTimeout(resolve, rng.next() * 80));
    }
  };
  const workers = Promise.all(Array.from({ length: CALLERS }, work));

  for (let disturbance = 0; disturbance < disturbances; disturbance++) {
    const before = succeeded;
    const index = Math.floor(rng.next() * 3);
    const pod = pods.at(index);
    const what = rng.next();
    if (what < 0.3) await pod.reset();
    else if (what < 0.6) await pod.end();
    else if (what < 0.8) {
      pod.freeze();
      await new Promise((resolve) => setTimeout(resolve, rng.next() * 300));
      pod.thaw();
    } else {
      await pod.kill();
      pods.all[index] = await Pod.start({ name: pod.name, port: pod.port });
      await pods.at(index).behave(calm);
    }
    await until('calls succeed again', () => succeeded > before + 20);
  }

  stopped = true;
  await workers;
  expect(running).toBe(0);
}
