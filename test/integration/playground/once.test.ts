import { describe, expect, test } from 'vitest';
import { severalAddresses, startPlayground } from '../../support/programs/playground.js';

declare module 'vitest' {
  interface TaskMeta {
    /** What this machine was too busy to show. `npm test` prints it. */
    notJudged?: readonly string[];
  }
}

/** Far above what a busy machine needs. */
const LIMIT_MS = 600_000;
const PHASES = ['start, steady', 'scale up', 'kill -9', 'rolling update'];
const CLIENTS = ['ordinary', ...(severalAddresses ? ['round-robin'] : []), 'evenkeel'];

/** How many of the five pods got none of a client's calls in a phase, from the table of gRPC. */
function idlePods(stdout: string, phase: string, client: string): number {
  const lines = stdout.split('\n');
  const at = lines.findIndex((line) => line.startsWith(phase)) + CLIENTS.indexOf(client);
  const counts = (lines[at] ?? '').trim().split(/\s+/).slice(-5);
  return counts.filter((count) => count === '0').length;
}

describe('npm start -- --once', () => {
  test('plays every phase, loses no call through evenkeel and spreads them evenly', { timeout: LIMIT_MS }, async ({
    task,
  }) => {
    const { code, stdout, stderr } = await startPlayground('--once').ended;
    const transcript = `${stderr}\n${stdout}`;
    const notJudged = stdout.split('\n').filter((line) => line.includes('not judged: '));
    task.meta.notJudged = notJudged;
    expect(code, transcript).toBe(0);
    expect(stdout).not.toContain('max/mean is');
    // Clients or pods that did not start in time.
    if (notJudged.some((line) => line.startsWith('not judged'))) return;
    for (const phase of PHASES) expect(stdout, transcript).toContain(`\n${phase}`);
    if (notJudged.length > 0) return;
    const idle = CLIENTS.map((client) => idlePods(stdout, 'scale up', client));
    expect(idle, transcript).toEqual(severalAddresses ? [4, 2, 0] : [4, 0]);
  });

  if (process.env.EVENKEEL_PROOF !== '1') return;
  test.each([
    ['--picker', 'round-robin'],
    ['--protocol', 'http,grpc,websocket'],
  ])('holds with %s %s, too', { timeout: LIMIT_MS }, async (...options) => {
    const { code, stdout, stderr } = await startPlayground('--once', ...options).ended;
    expect(code, `${stderr}\n${stdout}`).toBe(0);
    expect(stdout).not.toContain('max/mean is');
  });
});
