import type { Endpoint } from '../endpoint/endpoint.js';
import { resolverFrom, type TargetOptions } from '../resolver/target.js';
import { systemClock } from '../runtime/clock.js';
import { systemRng } from '../runtime/random32.js';
import type { UseFacts } from './report.js';

/** Lets the library find the endpoints of the target, as in an application, and returns the first result. Never rejects. */
export async function probeResolver(target: string, options: TargetOptions, signal: AbortSignal): Promise<UseFacts> {
  const found = { mode: undefined, reason: undefined, advice: undefined } as {
    mode: string | undefined;
    reason: string | undefined;
    advice: string | undefined;
  };
  const errors: string[] = [];
  const warnings: string[] = [];
  const endpoints = await new Promise<readonly Endpoint[] | undefined>((resolve) => {
    const done = (set: readonly Endpoint[] | undefined): void => {
      resolution.close();
      resolve(set);
    };
    const resolution = resolverFrom(target, options).watch(
      {
        update: done,
        fail: (error) => {
          errors.push(error.message);
          if (error.permanent) done(undefined);
        },
        fresh: () => {},
      },
      {
        clock: systemClock,
        rng: systemRng,
        observer: {
          discoveryChanged: ({ mode, reason, advice }) => Object.assign(found, { mode, reason, advice }),
          warned: ({ message }) => warnings.push(message),
        },
      },
    );
    signal.addEventListener('abort', () => done(undefined), { once: true });
    if (signal.aborted) done(undefined);
  });
  return { ...found, endpoints, errors, warnings };
}
