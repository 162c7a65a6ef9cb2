import { describe, expect, it } from 'vitest';
import { type Judgement, judgeRun } from '../../support/once-judgement.js';
import { severalAddresses } from '../../support/programs/playground.js';

/** What the playground itself makes of figures: its words are those the judgement has to understand. */
const example = async <T>(file: string): Promise<T> =>
  (await import(new URL(`../../../examples/playground/${file}`, import.meta.url).href)) as T;
const { formatSums, formatTables, judge } = await example<{
  formatTables(results: readonly Result[]): string;
  formatSums(results: readonly Result[]): string;
  judge(rows: readonly Figures[], picker: string | undefined): string[];
}>('table.js');
const { busyMachineNote } = await example<{ busyMachineNote(lateMs: number): string }>('state.js');
const { protocols } = await example<{ protocols: readonly Protocol[] }>('protocols.js');

interface Protocol {
  readonly name: string;
  readonly title: string;
  readonly longLived?: boolean;
}
interface Figures {
  phase: string;
  protocol: Protocol;
  client: string;
  requests: number;
  perPod: number[];
  maxOverMean: number;
  maxOverMeanLimit: number;
  p50Ms: number;
  p99Ms: number;
  errors: number;
  errorKinds: Map<string, number>;
  cut: number;
}
interface Result {
  readonly protocol: Protocol;
  readonly rows: Figures[];
}

const QUIET = { loadPerCore: 0.5 };
const CROWDED = { loadPerCore: 9 };
const PHASES = ['start, steady', 'scale up', 'kill -9', 'rolling update'];
const CLIENTS: Readonly<Record<string, readonly string[]>> = {
  http: ['ordinary', 'registered', 'evenkeel'],
  grpc: severalAddresses ? ['ordinary', 'round-robin', 'evenkeel'] : ['ordinary', 'evenkeel'],
  websocket: ['ordinary', 'evenkeel'],
};

function perPodOf(protocol: string, client: string, phase: string): number[] {
  if (protocol === 'websocket') {
    if (phase === 'start, steady') return [10, 10, 10];
    return client === 'evenkeel' ? [6, 6, 6, 6, 6] : [12, 10, 8, 0, 0];
  }
  if (phase === 'start, steady') return client === 'ordinary' && protocol === 'grpc' ? [300, 0, 0] : [100, 100, 100];
  if (client === 'evenkeel' || client === 'registered') return [80, 80, 80, 80, 80];
  if (protocol === 'http') return [200, 150, 30, 10, 10];
  return client === 'ordinary' ? [400, 0, 0, 0, 0] : [140, 130, 130, 0, 0];
}

interface Run {
  /** Changes the figures of a good run. */
  readonly change?: (rowOf: (protocol: string, phase: string, client?: string) => Figures) => void;
  /** How late a client sent at worst. @defaultValue 20, a quiet machine */
  readonly lateMs?: number;
  /** What the run said on its way. */
  readonly said?: string;
  readonly picker?: 'round-robin' | 'p2c';
  /** Changes what was printed. */
  readonly stdout?: (printed: string) => string;
  readonly machine?: { readonly loadPerCore: number };
}

/** Prints a run as the playground does, and judges it. */
function judged({
  change,
  lateMs = 20,
  said = '',
  picker,
  stdout = (printed) => printed,
  machine = QUIET,
}: Run): Judgement {
  const results = protocols
    .filter(({ name }) => name in CLIENTS)
    .map((protocol) => ({
      protocol: { ...protocol, workload: {} },
      rows: PHASES.flatMap((phase) =>
        (CLIENTS[protocol.name] ?? []).map((client): Figures => {
          const perPod = perPodOf(protocol.name, client, phase);
          const errorKinds = new Map<string, number>();
          const cut = client === 'ordinary' && phase === 'rolling update' ? 34 : 0;
          const figures = {
            phase,
            protocol,
            client,
            requests: 500,
            perPod,
            p50Ms: 5,
            p99Ms: 20,
            errors: 0,
            errorKinds,
            cut,
          };
          return { ...figures, maxOverMean: 1, maxOverMeanLimit: 1.2 };
        }),
      ),
    }));
  change?.((protocol, phase, client = 'evenkeel') => {
    const rows = results.find((result) => result.protocol.name === protocol)?.rows ?? [];
    return rows.find((row) => row.phase === phase && row.client === client) as Figures;
  });
  for (const row of results.flatMap(({ rows }) => rows)) {
    row.maxOverMean = Math.max(...row.perPod) / (row.perPod.reduce((sum, count) => sum + count, 0) / row.perPod.length);
  }
  const failures = results.flatMap(({ rows }) => judge(rows, picker));
  const stderr = [said, ...failures, busyMachineNote(lateMs)].join('\n');
  const ended = {
    code: failures.length === 0 ? 0 : 1,
    stdout: stdout(`\n${formatTables(results)}\n\n${formatSums(results)}\n`),
    stderr,
  };
  return judgeRun(ended, machine, picker === undefined ? {} : { picker });
}

const lose = (count: number, kind: string) => (rowOf: (protocol: string, phase: string) => Figures) => {
  const row = rowOf('http', 'kill -9');
  row.errors = count;
  row.errorKinds.set(kind, count);
};

/** A run that ended before its table. */
const gaveUp = (reason: string, machine: { readonly loadPerCore: number }, said = ''): Judgement =>
  judgeRun({ code: 1, stdout: '', stderr: `${said}\nthe playground could not go on: ${reason}` }, machine);

describe('a run on a quiet machine', () => {
  it('is judged as a whole', () => {
    expect(judged({})).toEqual({ broken: [], notJudged: [], showsNothing: false });
    expect(judged({ picker: 'round-robin' })).toEqual({ broken: [], notJudged: [], showsNothing: false });
  });

  it.each<[string, Run, RegExp]>([
    ['a lost request', { change: lose(1, 'ECONNRESET') }, /HTTP, kill -9: evenkeel lost 1 of 500/],
    [
      'a request that ran out of time',
      { change: lose(1, 'no answer in 3 s') },
      /HTTP, kill -9: evenkeel lost 1 of 500/,
    ],
    [
      'a lost request the run itself passed over',
      { stdout: (text) => text.replace(/^( +evenkeel +500 .* )0( +1\.00)/m, '$11$2') },
      /HTTP, start, steady: the table says that evenkeel lost 1/,
    ],
    [
      'a pod that gets half as much again',
      {
        picker: 'p2c',
        change: (rowOf) => {
          rowOf('grpc', 'rolling update').perPod = [140, 65, 65, 65, 65];
        },
      },
      /gRPC, rolling update: (evenkeel's )?max\/mean is/,
    ],
    [
      'turns that are no turns',
      {
        picker: 'round-robin',
        change: (rowOf) => {
          rowOf('http', 'scale up').perPod = [83, 80, 79, 79, 79];
        },
      },
      /HTTP, scale up: (evenkeel's )?max\/mean is/,
    ],
    [
      'a client that was sent less',
      {
        change: (rowOf) => {
          rowOf('http', 'kill -9').requests = 480;
        },
      },
      /HTTP, kill -9: the clients were sent 20 requests more or less/,
    ],
    [
      'a window too short to say something',
      {
        change: (rowOf) => {
          rowOf('http', 'kill -9').perPod = [20, 20, 20, 20, 20];
        },
      },
      /HTTP, kill -9: 100 requests are too few/,
    ],
    [
      'an ordinary client that is as even',
      {
        change: (rowOf) => {
          rowOf('grpc', 'scale up', 'ordinary').perPod = [80, 80, 80, 80, 80];
        },
      },
      /gRPC, scale up: the ordinary client is as even/,
    ],
    [
      'a WebSocket of evenkeel that was cut',
      {
        change: (rowOf) => {
          rowOf('websocket', 'rolling update').cut = 1;
        },
      },
      /WebSocket, rolling update: 1 connections of evenkeel ended without a close frame/,
    ],
    [
      'a message of evenkeel that was lost in a rolling update',
      {
        change: (rowOf) => {
          const row = rowOf('websocket', 'rolling update');
          row.errors = 1;
          row.errorKinds.set('closed with 1006', 1);
        },
      },
      /WebSocket, rolling update: evenkeel lost 1 of 500/,
    ],
    [
      'WebSockets that do not even out',
      {
        change: (rowOf) => {
          rowOf('websocket', 'scale up').perPod = [10, 10, 10, 0, 0];
        },
      },
      /WebSocket, scale up: (evenkeel's )?max\/mean is/,
    ],
    [
      'an ordinary client whose WebSockets were not cut',
      {
        change: (rowOf) => {
          rowOf('websocket', 'rolling update', 'ordinary').cut = 3;
        },
      },
      /WebSocket, rolling update: 3 of the ordinary client's connections were cut, not all/,
    ],
    ['a phase that is missing', { stdout: (text) => text.replace(/^kill -9.*\n/m, '') }, /HTTP: the table has/],
    ['a protocol that is missing', { stdout: (text) => text.replace(/^gRPC$/m, 'RPC') }, /gRPC: the table has no rows/],
  ])('is blamed for %s', (_what, run, reason) => {
    const { broken, notJudged, showsNothing } = judged(run);
    expect(broken.join('\n')).toMatch(reason);
    expect(notJudged).toEqual([]);
    expect(showsNothing).toBe(false);
  });

  it('is not blamed for what dies with a killed pod', () => {
    const change: Run['change'] = (rowOf) => {
      const row = rowOf('websocket', 'kill -9');
      row.cut = 6;
      row.errors = 2;
      row.errorKinds.set('closed with 1006', 2);
    };
    expect(judged({ change }).broken).toEqual([]);
  });

  it('is blamed for what was missing in time', () => {
    for (const reason of ['the pods were not ready in 60 s', 'some requests never ended']) {
      const { broken, notJudged } = gaveUp(reason, QUIET);
      expect(broken.join()).toContain(reason);
      expect(notJudged).toEqual([]);
    }
  });

  it('may prefer some of more than three pods, as the default picker does', () => {
    const change = (rowOf: (protocol: string, phase: string) => Figures): void => {
      rowOf('grpc', 'rolling update').perPod = [140, 65, 65, 65, 65];
    };
    expect(judged({ change })).toEqual({ broken: [], notJudged: [], showsNothing: false });
  });

  it('is blamed for an end without a reason', () => {
    const { broken } = judgeRun({ code: null, stdout: '', stderr: '' }, QUIET);
    expect(broken[0]).toBe('it ended with null, and does not say why');
  });
});

describe('a run on a busy machine', () => {
  const busy = { lateMs: 900 };

  it('names what it could not show', () => {
    const { broken, notJudged, showsNothing } = judged(busy);
    expect(broken).toEqual([]);
    expect(notJudged).toEqual([
      'how many requests each client was sent',
      'how evenly evenkeel spread them',
      'how many pods the other gRPC clients left idle',
    ]);
    expect(showsNothing).toBe(false);
  });

  it('names the losses and the unevenness that it attributes to the machine', () => {
    const { broken, notJudged, showsNothing } = judged({
      ...busy,
      picker: 'p2c',
      change: (rowOf) => {
        lose(3, 'no answer in 3 s')(rowOf);
        rowOf('grpc', 'rolling update').perPod = [140, 65, 65, 65, 65];
      },
    });
    expect(broken).toEqual([]);
    expect(notJudged.join('\n')).toMatch(/HTTP, kill -9: evenkeel lost 3 of 500 requests \(3 × no answer in 3 s\)/);
    expect(notJudged.join('\n')).toMatch(/gRPC, rolling update: evenkeel's max\/mean is 1\.750/);
    expect(showsNothing).toBe(true);
  });

  it.each<[string, Run, RegExp]>([
    ['a request lost by anything but time', { change: lose(1, 'ECONNRESET') }, /evenkeel lost 1 of 500/],
    [
      'a request lost beside others that ran out of time',
      {
        change: (rowOf) => {
          lose(3, 'no answer in 3 s')(rowOf);
          rowOf('http', 'kill -9').errors = 4;
          rowOf('http', 'kill -9').errorKinds.set('ECONNRESET', 1);
        },
      },
      /evenkeel lost 4 of 500/,
    ],
    ['a phase that is missing', { stdout: (text) => text.replace(/^kill -9.*\n/m, '') }, /HTTP: the table has/],
    [
      'a lost request the run itself passed over',
      { stdout: (text) => text.replace(/^( +evenkeel +500 .* )0( +1\.00)/m, '$11$2') },
      /the table says that evenkeel lost 1/,
    ],
  ])('is still blamed for %s', (_what, run, reason) => {
    expect(judged({ ...busy, ...run, machine: CROWDED }).broken.join('\n')).toMatch(reason);
  });

  it.each([
    [
      'says that it sends less',
      QUIET,
      'this machine is busy with other things: 20 requests/s from each HTTP client, not 120',
    ],
    ['is on a crowded machine', CROWDED, ''],
  ])('that stopped early and %s shows nothing, and says so', (_what, machine, said) => {
    const { broken, notJudged, showsNothing } = gaveUp('the pods were not ready in 60 s', machine, said);
    expect(broken).toEqual([]);
    expect(notJudged).toEqual(['everything: the playground could not go on: the pods were not ready in 60 s']);
    expect(showsNothing).toBe(true);
  });

  it('that stopped early for another reason is blamed', () => {
    const { broken } = gaveUp('TypeError: pods is not iterable', CROWDED);
    expect(broken.join()).toContain('does not say why');
  });
});
