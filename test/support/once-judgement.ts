/**
 * Judges a run of `npm start -- --once`. On a quiet machine everything counts. If the run itself says that its clients were delayed,
 * it can show less: what it cannot show is listed, never passed over.
 */
import { type Ended, severalAddresses } from './programs/playground.js';

/** The verdict on a run. */
export interface Judgement {
  /** Promises evenkeel broke; empty if it kept all that were judged. */
  readonly broken: readonly string[];
  /** What this machine could not show; empty on a quiet machine. */
  readonly notJudged: readonly string[];
  /** Whether the run ended too early, or lost too much, to show anything about evenkeel. */
  readonly showsNothing: boolean;
}

/** The machine of a run. */
export interface Machine {
  /** Processes that want to run, per core, over the last minute. */
  readonly loadPerCore: number;
}

export interface JudgeOptions {
  /** Of `--picker`. @defaultValue p2c */
  readonly picker?: 'round-robin' | 'p2c';
}

/** One client in one phase, from the table. */
export interface Row {
  readonly phase: string;
  readonly client: string;
  readonly requests: number;
  readonly errors: number;
  readonly maxOverMean: number;
  /** Connections that ended without a close frame; only for long-lived ones. */
  readonly cut: number;
  readonly perPod: readonly number[];
}

const PHASES = ['start, steady', 'scale up', 'kill -9', 'rolling update'];

export type Protocol = 'HTTP' | 'gRPC' | 'WebSocket';
const CLIENTS: Readonly<Record<Protocol, readonly string[]>> = {
  HTTP: ['ordinary', 'registered', 'evenkeel'],
  gRPC: ['ordinary', 'round-robin', 'evenkeel'],
  WebSocket: ['ordinary', 'evenkeel'],
};
const PROTOCOLS = Object.keys(CLIENTS) as Protocol[];

/** The message of a run whose clients could not send in time. */
const BUSY = 'this machine is busy: a client sent up to';

/** The message of a run that sends fewer requests than it would on another machine. */
const LOWERED = 'this machine is busy with other things';

/** Why a request fails if processes do not get to run in time. */
const OUT_OF_TIME = /\d+ × (no answer in 3 s|not sent, too many in flight|DEADLINE_EXCEEDED)(, )?/g;

/** The last message of a run in which something was not there in time: pods, clients, connections, answers. */
const GAVE_UP =
  /the playground could not go on: .*(were not ready in|was not ready in|did not all become ready|never ended|no answer in|DEADLINE_EXCEEDED).*/;

/** With more runnable processes per core than this, a timeout says nothing about what it waited for. */
const CROWDED = 4;

/** The rows under a protocol's name; columns are where the ruler has dashes. */
function readTable(stdout: string, protocol: Protocol): Row[] {
  const all = stdout.split('\n');
  const lines = all.slice(all.indexOf(protocol));
  const rulerAt = lines.findIndex((line) => /^-+( {2}-+)+$/.test(line));
  const head = lines[rulerAt - 1] ?? '';
  const columns = [...(lines[rulerAt] ?? '').matchAll(/-+/g)].map(({ index, 0: dashes }) => [
    index,
    index + dashes.length,
  ]);
  const titles = columns.map(([from, to]) => head.slice(from, to).trim());
  let phase = '';
  return lines.slice(rulerAt + 1, lines.indexOf('', rulerAt)).map((line) => {
    const cells = columns.map(([from, to], column) =>
      line.slice(from, column === columns.length - 1 ? undefined : to).trim(),
    );
    phase = cells[0] || phase;
    const cellOf = (title: string): string | undefined => cells[titles.indexOf(title)];
    return {
      phase,
      client: cells[1] ?? '',
      requests: Number(cells[2]),
      errors: Number(cellOf('errors')),
      cut: Number(cellOf('cut') ?? 0),
      maxOverMean: Number(cellOf('max/mean')),
      perPod: (cells.at(-1) ?? '').split(/\s+/).map(Number),
    };
  });
}

export function judgeRun(ended: Ended, machine: Machine, options: JudgeOptions = {}): Judgement {
  const said = `${ended.stderr}\n${ended.stdout}`;
  const isBusy = said.includes(BUSY);
  const [gaveUp] = GAVE_UP.exec(ended.stderr) ?? [];
  if (ended.code === 1 && gaveUp !== undefined) {
    const excused = isBusy || said.includes(LOWERED) || machine.loadPerCore > CROWDED;
    return excused
      ? { broken: [], notJudged: [`everything: ${gaveUp}`], showsNothing: true }
      : { broken: [gaveUp], notJudged: [], showsNothing: false };
  }
  // What the run itself reports against evenkeel, one line each.
  const held = ended.stderr.split('\n').filter((line) => /^(HTTP|gRPC|WebSocket), /.test(line));
  const excused = isBusy && ended.code === 1 ? held.filter(isTheMachines) : [];
  const broken = held.filter((line) => !excused.includes(line));
  if (ended.code !== 0 && held.length === 0) broken.push(`it ended with ${ended.code}, and does not say why`);
  const notJudged = excused.map((line) => `of the machine's making: ${line}`);
  if (isBusy) {
    notJudged.push('how many requests each client was sent', 'how evenly evenkeel spread them');
    if (options.picker === undefined) notJudged.push('how many pods the other gRPC clients left idle');
  }
  const excusedPhases = excused.filter((line) => line.includes(' lost ')).map(phaseOf);
  for (const protocol of PROTOCOLS) {
    const rows = readTable(ended.stdout, protocol);
    broken.push(...missing(rows, protocol), ...lost(rows, protocol, said, excusedPhases));
    if (!isBusy) broken.push(...uneven(rows, protocol, options, said.includes(LOWERED)));
  }
  return { broken, notJudged, showsNothing: excused.length > 0 };
}

/** Whether a line of the verdict is about lack of time or its effects: unevenness, connections that leave too late. */
const isTheMachines = (line: string): boolean =>
  line.includes('max/mean') || line.includes('without a close frame') || /\(\)$/.test(line.replace(OUT_OF_TIME, ''));

/** Evenkeel's client, and the ordinary one started with `--require evenkeel/register`. */
const isBalanced = (client: string): boolean => client === 'evenkeel' || client === 'registered';

/** Such as `HTTP, kill -9`. */
const phaseOf = (line: string): string => line.slice(0, line.indexOf(': '));

/** Rows and columns missing from the table. */
function missing(rows: readonly Row[], protocol: Protocol): string[] {
  const clients = CLIENTS[protocol].filter((name) => name !== 'round-robin' || severalAddresses);
  const wanted = PHASES.flatMap((phase) => clients.map((client) => `${phase}: ${client}`));
  const found = rows.map(({ phase, client }) => `${phase}: ${client}`);
  if (wanted.join() !== found.join()) return [`${protocol}: the table has ${found.join(', ') || 'no rows'}`];
  return rows
    .filter(({ phase, perPod }) => perPod.length !== (phase === PHASES[0] ? 3 : 5))
    .map(({ phase, client, perPod }) => `${protocol}, ${phase}: ${client} has ${perPod.length} pods`);
}

/** Requests evenkeel lost, according to the table alone. */
function lost(rows: readonly Row[], protocol: Protocol, said: string, excused: readonly string[]): string[] {
  // What the run itself excuses: kill -9 in the middle of an answer, or of a WebSocket.
  if (said.includes('its answer had begun')) return [];
  return rows
    .filter(({ client, errors, phase }) => {
      if (protocol === 'WebSocket' && phase === 'kill -9') return false;
      return isBalanced(client) && errors !== 0 && !excused.includes(`${protocol}, ${phase}`);
    })
    .map(({ phase, client, errors }) => `${protocol}, ${phase}: the table says that ${client} lost ${errors}`);
}

/** What the table says about how requests were spread, if they were sent and answered in time. */
function uneven(rows: readonly Row[], protocol: Protocol, { picker }: JudgeOptions, isLowered: boolean): string[] {
  const broken: string[] = [];
  for (const phase of PHASES) {
    const own = rows.filter((row) => row.phase === phase);
    const [ordinary, evenkeel] = [own[0], own.at(-1)];
    if (ordinary === undefined || evenkeel === undefined) continue;
    const expect = (holds: boolean, what: string): void => {
      if (!holds) broken.push(`${protocol}, ${phase}: ${what}`);
    };
    // Each client is a process, and learns about a phase border 60 ms ahead. If it does not run for almost 200 ms, which does not yet
    // count as busy, 140 ms of its 120/s fall on the wrong side: 17 of 600.
    const apart = Math.abs(evenkeel.requests - ordinary.requests);
    expect(apart <= 2 + 0.03 * ordinary.requests, `the clients were sent ${apart} requests more or less`);
    if (protocol === 'WebSocket') {
      expect(evenkeel.maxOverMean <= 1.2, `max/mean is ${evenkeel.maxOverMean}, above 1.2`);
      if (phase === 'scale up') {
        const idle = ordinary.perPod.filter((count) => count === 0).length;
        expect(idle === 2, `the ordinary client left ${idle} pods idle, not 2`);
      }
      if (phase !== 'rolling update') continue;
      expect(evenkeel.cut === 0, `${evenkeel.cut} of evenkeel's connections were cut`);
      expect(ordinary.cut >= 30, `${ordinary.cut} of the ordinary client's connections were cut, not all`);
      continue;
    }
    const answered = evenkeel.perPod.reduce((sum, count) => sum + count, 0);
    expect(answered > (isLowered ? 50 : 120), `${answered} requests are too few to say something`);
    const mean = answered / evenkeel.perPod.length;
    // Random draws differ by about 1/sqrt(n), turns by one request. The table has two digits.
    const limit =
      picker === 'round-robin' ? Math.max(1.01, (mean + 1) / mean) : Math.max(1.05, 1 + 4 / Math.sqrt(mean));
    // The default takes turns among three pods; of more, a single client prefers some.
    const isEvenByCount = picker !== undefined || evenkeel.perPod.length <= 3;
    expect(
      !isEvenByCount || evenkeel.maxOverMean <= limit + 0.005,
      `max/mean is ${evenkeel.maxOverMean}, above ${limit.toFixed(3)}`,
    );
    const counted = Math.max(...evenkeel.perPod) / mean;
    expect(Math.abs(counted - evenkeel.maxOverMean) < 0.05, `max/mean is ${counted.toFixed(2)} by its own counts`);
    // Chance decides how even the ordinary HTTP client is: each of its connections goes to a random pod.
    if (picker !== undefined || phase !== 'scale up' || protocol !== 'gRPC') continue;
    // Pods that came later get nothing from connections opened before.
    expect(ordinary.maxOverMean > evenkeel.maxOverMean, 'the ordinary client is as even as evenkeel');
    const idle = (name: string): number | undefined =>
      own.find(({ client }) => client === name)?.perPod.filter((count) => count === 0).length;
    expect(idle('ordinary') === 4, `pick_first left ${idle('ordinary')} pods idle, not 4`);
    if (severalAddresses) expect(idle('round-robin') === 2, `round_robin left ${idle('round-robin')} pods idle, not 2`);
  }
  return broken;
}
