import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { outputOf } from '../../support/programs/programs.js';

const program = fileURLToPath(new URL('support/burst.mjs', import.meta.url));
const servers = fileURLToPath(new URL('support/burst-server.mjs', import.meta.url));
/**
 * More than three pods are given at once (128 each). In the proof many more: 10,000 sockets on each side take a machine of their own.
 */
const PROOF = process.env.EVENKEEL_PROOF === '1';
const COUNT = PROOF ? 10_000 : 450;

interface Burst {
  readonly how: string;
  readonly count: number;
  readonly warm: boolean;
  readonly ports: readonly number[];
  readonly blockMs?: number;
  /** What else must have happened before the burst. */
  readonly warmed?: Promise<unknown>;
}

const { burst } = (await import(pathToFileURL(program).href)) as { burst: (given: Burst) => Promise<unknown> };

const open: (() => void)[] = [];
afterEach(() => {
  for (const close of open.splice(0)) close();
});

async function startServers(
  delayMs: number,
  ...more: readonly 'ends'[]
): Promise<{ readonly ports: readonly number[]; readonly ended: Promise<unknown> }> {
  const child = fork(servers, [String(delayMs), ...more]);
  open.push(() => child.disconnect());
  const [{ ports }] = (await once(child, 'message')) as [{ ports: number[] }];
  // Listened for before anybody connects.
  return { ports, ended: once(child, 'message') };
}

const burstOfProgram = async (given: Burst): Promise<unknown> =>
  JSON.parse(await outputOf([program, JSON.stringify(given)]));

const ways = ['fetch', 'dispatcher', 'whole app', 'node:http'];
/** `fetch` sends what the dispatcher and the agent of a whole app send; those too in the proof. */
const burstWays = PROOF ? ways : ['fetch', 'node:http'];

describe.each(burstWays)('a burst over %s', (how) => {
  it.each([
    { warm: true, delayMs: 100 },
    { warm: false, delayMs: 1_000 },
    ...(PROOF ? [{ warm: false, delayMs: 100 }] : []),
  ])('of many requests at once fails none, as with the ordinary client: %o', async ({ warm, delayMs }) => {
    const { ports } = await startServers(delayMs);
    expect(await burst({ how, count: COUNT, warm, ports })).toEqual({ ok: COUNT, errors: {} });
  });

  it('fails none where a pod accepts no more connections: unsent requests go to the others, whatever the budget', async () => {
    const { ports, ended: warmed } = await startServers(300, 'ends');
    expect(await burst({ how, count: COUNT, warm: true, ports, warmed })).toEqual({ ok: COUNT, errors: {} });
  });
});

it('bursts over each survive an event loop that is blocked for 6 s one turn after they began', async () => {
  const { ports } = await startServers(10);
  const blocked = ways.map((how) => burstOfProgram({ how, count: 20, warm: false, ports, blockMs: 6_000 }));
  expect(await Promise.all(blocked)).toEqual(ways.map(() => ({ ok: 20, errors: {} })));
});
