import { describe, expect, test } from 'vitest';
import { type Ended, startPlayground } from '../../support/playground.js';

interface Row {
  readonly phase: string;
  readonly client: string;
  readonly requests: number;
  readonly errors: number;
  readonly maxOverMean: number;
  readonly perPod: readonly number[];
}

const PHASES = ['start, steady', 'scale up', 'kill -9', 'rolling update'];

/** Reads the table as a person does: columns where the ruler has its dashes. */
function readTable(stdout: string): Row[] {
  const lines = stdout.split('\n');
  const rulerAt = lines.findIndex((line) => /^-+( {2}-+)+$/.test(line));
  const columns = [...(lines[rulerAt] ?? '').matchAll(/-+/g)].map(({ index, 0: dashes }) => [
    index,
    index + dashes.length,
  ]);
  let phase = '';
  return lines.slice(rulerAt + 1, lines.indexOf('', rulerAt)).map((line) => {
    const cells = columns.map(([from, to], column) =>
      line.slice(from, column === columns.length - 1 ? undefined : to).trim(),
    );
    phase = cells[0] || phase;
    return {
      phase,
      client: cells[1] ?? '',
      requests: Number(cells[2]),
      errors: Number(cells[5]),
      maxOverMean: Number(cells[6]),
      perPod: (cells[7] ?? '').split(/\s+/).map(Number),
    };
  });
}

/** The reason of a failure is in what the run wrote. */
const transcript = ({ stdout, stderr }: Ended): string => `${stderr}\n${stdout}`;

/** What a run says when its clients did not get to send in time. */
const BUSY = 'this machine is busy: a client sent up to';

/** Three runs on a busy machine, where each may take half a minute. */
const LIMIT_MS = 180_000;

/** A run that says itself that the machine was too busy tells nothing about evenkeel: then, and only then, once more. */
async function playOnce(...options: string[]): Promise<Ended> {
  for (let left = 2; ; left--) {
    const ended = await startPlayground('--once', ...options).ended;
    if (ended.code === 0 || left === 0 || !transcript(ended).includes(BUSY)) return ended;
  }
}

describe('npm start -- --once', () => {
  test('plays every phase, loses no request through evenkeel and spreads them evenly', {
    timeout: LIMIT_MS,
  }, async () => {
    const ended = await playOnce();
    expect(ended.code, transcript(ended)).toBe(0);

    const rows = readTable(ended.stdout);
    expect(rows.map(({ phase, client }) => `${phase}: ${client}`)).toEqual(
      PHASES.flatMap((phase) => [`${phase}: ordinary`, `${phase}: evenkeel`]),
    );
    for (const [index, row] of rows.entries()) {
      if (row.client !== 'evenkeel') continue;
      const ordinary = rows[index - 1] as Row;
      // A client that stood still for long counts a few of its requests under the phase before.
      if (!transcript(ended).includes(BUSY)) {
        expect(row.requests, 'both clients are sent the same').toBe(ordinary.requests);
      }
      expect(row.errors, row.phase).toBe(0);
      const answered = row.perPod.reduce((sum, count) => sum + count, 0);
      expect(answered, 'the window is long enough to say something').toBeGreaterThan(200);
      const perPod = answered / row.perPod.length;
      expect(row.maxOverMean, row.phase).toBeLessThanOrEqual(Math.max(1.05, 1 + 4 / Math.sqrt(perPod)) + 0.005);
      expect(row.maxOverMean, 'the table agrees with itself').toBeCloseTo(Math.max(...row.perPod) / perPod, 1);
    }
    expect(rows.map(({ perPod }) => perPod.length)).toEqual([3, 3, 5, 5, 5, 5, 5, 5]);
    // Pods that came later get nothing, or next to nothing, from connections that were there before.
    const scaledUp = rows[2] as Row;
    expect(scaledUp.maxOverMean).toBeGreaterThan((rows[3] as Row).maxOverMean);
  });

  test('takes turns to the request with --picker round-robin', { timeout: LIMIT_MS }, async () => {
    const ended = await playOnce('--picker', 'round-robin');
    expect(ended.code, transcript(ended)).toBe(0);
    for (const row of readTable(ended.stdout).filter(({ client }) => client === 'evenkeel')) {
      expect(row.maxOverMean, row.phase).toBeLessThanOrEqual(1.01);
    }
  });
});
