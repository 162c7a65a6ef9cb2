import { availableParallelism, loadavg } from 'node:os';
import { describe, expect, test } from 'vitest';
import { type Ended, severalAddresses, startPlayground } from '../../support/playground.js';

interface Row {
  readonly phase: string;
  readonly client: string;
  readonly requests: number;
  readonly errors: number;
  readonly maxOverMean: number;
  readonly perPod: readonly number[];
}

const PHASES = ['start, steady', 'scale up', 'kill -9', 'rolling update'];

const CLIENTS = { HTTP: ['ordinary', 'evenkeel'], gRPC: ['ordinary', 'round-robin', 'evenkeel'] };
type Protocol = keyof typeof CLIENTS;
const PROTOCOLS = Object.keys(CLIENTS) as Protocol[];

/** Reads the table under a protocol's name as a person does: columns where the ruler has its dashes. */
function readTable(stdout: string, protocol: Protocol): Row[] {
  const all = stdout.split('\n');
  const lines = all.slice(all.indexOf(protocol));
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

/** What it says when it sends fewer requests than it would elsewhere. */
const LOWERED = 'this machine is busy with other things';

/** Two runs on a busy machine, where each may take several minutes. */
const LIMIT_MS = 600_000;

/** What a request is lost by when nobody got to run in time. */
const OUT_OF_TIME = /\d+ × (no answer in 3 s|not sent, too many in flight|DEADLINE_EXCEEDED)(, )?/g;

/** What a run ends with when something was not there in time: pods, clients, connections, answers. */
const GAVE_UP =
  /the playground could not go on: .*(were not ready in|was not ready in|did not all become ready|no connection to every pod|never ended|no answer in|DEADLINE_EXCEEDED)/;

/** More processes than this that want to run, per core: then a time-out says nothing of what it waited for. */
const CROWDED = 4;

/** Whether the run says itself that its clients were kept waiting, or that it sends less than it would elsewhere. */
const wasBusy = (ended: Ended): boolean => transcript(ended).includes(BUSY) || transcript(ended).includes(LOWERED);

/**
 * Whether the machine alone is to blame: the run says that its clients did not get to send in time, and all it holds
 * against evenkeel is time that ran out and the unevenness that makes.
 */
function isExcused(ended: Ended): boolean {
  if (ended.code === 1 && GAVE_UP.test(ended.stderr)) {
    return wasBusy(ended) || (loadavg()[0] as number) > CROWDED * availableParallelism();
  }
  const held = ended.stderr.split('\n').filter((line) => /^(HTTP|gRPC), /.test(line));
  const losses = held.filter((line) => !line.includes('max/mean'));
  const outOfTime = losses.every((line) => /\(\)$/.test(line.replace(OUT_OF_TIME, '')));
  return transcript(ended).includes(BUSY) && ended.code === 1 && outOfTime;
}

/** A run that says itself that the machine was too busy tells little about evenkeel: then, and only then, once more. */
async function playOnce(...options: string[]): Promise<Ended> {
  const ended = await startPlayground('--once', ...options).ended;
  return ended.code !== 0 && isExcused(ended) ? startPlayground('--once', ...options).ended : ended;
}

/** What must hold of one protocol's table. */
function checkTable(rows: readonly Row[], protocol: Protocol, ended: Ended): void {
  const clients = CLIENTS[protocol].filter((name) => name !== 'round-robin' || severalAddresses);
  expect(rows.map(({ phase, client }) => `${phase}: ${client}`)).toEqual(
    PHASES.flatMap((phase) => clients.map((client) => `${phase}: ${client}`)),
  );
  for (const [index, phase] of PHASES.entries()) {
    const own = rows.filter((row) => row.phase === phase);
    for (const row of own) expect(row.perPod).toHaveLength(index === 0 ? 3 : 5);
    const [ordinary, evenkeel] = [own[0], own.at(-1)] as [Row, Row];
    // Each client is a process of its own, and is told of a border between two phases 60 ms ahead. One that was kept from
    // running for almost 200 ms, which is not yet called busy, takes 140 ms of its 120/s to the wrong side: 17 of 600.
    if (!transcript(ended).includes(BUSY)) {
      const apart = Math.abs(evenkeel.requests - ordinary.requests);
      expect(apart, 'all clients are sent the same').toBeLessThanOrEqual(2 + 0.03 * ordinary.requests);
    }
    // What the run itself does not hold against evenkeel: kill -9 in the middle of an answer.
    if (!transcript(ended).includes('its answer had begun')) expect(evenkeel.errors, phase).toBe(0);
    // Numbers and their spread are for a machine on which requests are sent and answered in time.
    if (transcript(ended).includes(BUSY)) continue;
    const answered = evenkeel.perPod.reduce((sum, count) => sum + count, 0);
    const enough = transcript(ended).includes(LOWERED) ? 50 : 120;
    expect(answered, 'the window is long enough to say something').toBeGreaterThan(enough);
    const perPod = answered / evenkeel.perPod.length;
    expect(evenkeel.maxOverMean, phase).toBeLessThanOrEqual(Math.max(1.05, 1 + 4 / Math.sqrt(perPod)) + 0.005);
    expect(evenkeel.maxOverMean, 'the table agrees with itself').toBeCloseTo(Math.max(...evenkeel.perPod) / perPod, 1);
    // Pods that came later get nothing, or next to nothing, from connections that were there before.
    if (phase === 'scale up') expect(ordinary.maxOverMean).toBeGreaterThan(evenkeel.maxOverMean);
  }
}

describe('npm start -- --once', () => {
  test('plays every phase, loses no request through evenkeel and spreads them evenly', {
    timeout: LIMIT_MS,
  }, async () => {
    const ended = await playOnce();
    if (isExcused(ended)) return;
    expect(ended.code, transcript(ended)).toBe(0);

    for (const protocol of PROTOCOLS) checkTable(readTable(ended.stdout, protocol), protocol, ended);
    if (transcript(ended).includes(BUSY)) return;

    const scaledUp = readTable(ended.stdout, 'gRPC').filter(({ phase }) => phase === 'scale up');
    const idle = (name: string): number =>
      scaledUp.find(({ client }) => client === name)?.perPod.filter((count) => count === 0).length ?? Number.NaN;
    expect(idle('ordinary'), 'pick_first keeps to one pod of five').toBe(4);
    if (severalAddresses) expect(idle('round-robin'), 'round_robin does not look for new pods').toBe(2);
    expect(idle('evenkeel')).toBe(0);
  });

  test('takes turns to the request with --picker round-robin', { timeout: LIMIT_MS }, async () => {
    const ended = await playOnce('--picker', 'round-robin');
    if (isExcused(ended)) return;
    expect(ended.code, transcript(ended)).toBe(0);
    // Marks that come late, at the ends of a phase, cut a round of turns in two.
    if (transcript(ended).includes(BUSY)) return;
    for (const protocol of PROTOCOLS) {
      for (const row of readTable(ended.stdout, protocol).filter(({ client }) => client === 'evenkeel')) {
        const mean = row.perPod.reduce((sum, count) => sum + count, 0) / row.perPod.length;
        // The table has two digits.
        const limit = Math.max(1.01, (mean + 1) / mean) + 0.005;
        expect(row.maxOverMean, `${protocol}, ${row.phase}`).toBeLessThanOrEqual(limit);
      }
    }
  });
});
