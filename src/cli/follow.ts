import type { Endpoint } from '../endpoint/endpoint.js';
import { resolverFrom, type TargetOptions } from '../resolver/target.js';
import { systemClock } from '../runtime/clock.js';
import { systemRng } from '../runtime/random32.js';
import { conditionsInWords } from './endpoints.js';

/** Something that changed while `evenkeel doctor --watch` follows a target; `afterMs` counts from the start. */
export type FollowEvent = { readonly afterMs: number } & (
  | { readonly event: 'added' | 'removed' | 'changed'; readonly endpoint: string; readonly state: string }
  | { readonly event: 'mode'; readonly mode: string; readonly reason: string }
  | { readonly event: 'failed' | 'warned'; readonly message: string }
  | { readonly event: 'fresh' }
);

/** Reports the endpoints of a target and every later change of them, until `signal` aborts. */
export async function follow(
  target: string,
  options: TargetOptions,
  signal: AbortSignal,
  say: (event: FollowEvent) => void,
): Promise<void> {
  const startedMs = systemClock.now();
  const afterMs = (): number => Math.round(systemClock.now() - startedMs);
  let lastStates = new Map<string, string>();
  const update = (endpoints: readonly Endpoint[]): void => {
    const now = new Map(endpoints.map((endpoint) => [endpoint.key, stateOf(endpoint)]));
    for (const [endpoint, state] of lastStates)
      if (!now.has(endpoint)) say({ afterMs: afterMs(), event: 'removed', endpoint, state });
    for (const [endpoint, state] of now) {
      const before = lastStates.get(endpoint);
      if (before === undefined) say({ afterMs: afterMs(), event: 'added', endpoint, state });
      else if (before !== state) say({ afterMs: afterMs(), event: 'changed', endpoint, state });
    }
    lastStates = now;
  };
  const resolution = resolverFrom(target, options).watch(
    {
      update,
      fail: ({ message }) => say({ afterMs: afterMs(), event: 'failed', message }),
      fresh: () => say({ afterMs: afterMs(), event: 'fresh' }),
    },
    {
      clock: systemClock,
      rng: systemRng,
      observer: {
        discoveryChanged: ({ mode, reason }) => say({ afterMs: afterMs(), event: 'mode', mode, reason }),
        warned: ({ message }) => say({ afterMs: afterMs(), event: 'warned', message }),
      },
    },
  );
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
    keepAlive(signal);
  });
  resolution.close();
}

/** Keeps the process alive until `signal` aborts, because the library never does, but a command that follows changes should go on. */
function keepAlive(signal: AbortSignal): void {
  const hour = 3_600_000;
  const timer = systemClock.timer(() => keepAlive(signal), hour);
  timer.ref();
  signal.addEventListener('abort', () => timer.cancel(), { once: true });
}

/** Formats an event as one line for people. */
export function printEvent(event: FollowEvent): string {
  const time = `+${(event.afterMs / 1_000).toFixed(1)} s`.padStart(10);
  switch (event.event) {
    case 'added':
      return `${time}  + ${event.endpoint} ${event.state}\n`;
    case 'removed':
      return `${time}  - ${event.endpoint}\n`;
    case 'changed':
      return `${time}  ~ ${event.endpoint} ${event.state}\n`;
    case 'mode':
      return `${time}  ${event.mode}: ${event.reason}\n`;
    case 'failed':
    case 'warned':
      return `${time}  ! ${event.message}\n`;
    case 'fresh':
      return `${time}  the last set was confirmed\n`;
  }
}

function stateOf(endpoint: Endpoint): string {
  const { zone } = endpoint;
  const state = conditionsInWords(endpoint);
  return zone === undefined ? state : `${state}, zone ${zone}`;
}
