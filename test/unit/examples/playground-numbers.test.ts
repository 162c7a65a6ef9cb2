import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

interface Row {
  readonly protocol: { readonly title: string; readonly requests: string; readonly longLived?: boolean };
  readonly phase: string;
  readonly client: string;
  readonly requests: number;
  readonly perPod: readonly number[];
  readonly maxOverMean: number;
  readonly maxOverMeanLimit: number;
  readonly errors: number;
  readonly errorKinds: ReadonlyMap<string, number>;
  readonly unended: number;
  readonly cut: number;
  readonly notJudged: string | undefined;
}

interface Histogram {
  readonly total: number;
  record(ms: number): void;
  pairs(): [number, number][];
  addPairs(pairs: [number, number][]): void;
  quantile(q: number): number | undefined;
}

interface Recorder {
  mark(segment: number, from: number): void;
  begin(dueAt: number): number;
  succeed(segment: number, pod: string, latencyMs: number): void;
  fail(segment: number, kind: string, pod?: string): void;
  close(code: number, at: number): void;
  leaveOut(segment: number, pod?: string): void;
  take(): {
    segment: number;
    requests: number;
    leftOut: number;
    pods: Record<string, number>;
    errors: Record<string, number>;
    closes: Record<string, number>;
  }[];
}

/** The playground is plain JavaScript; what its files offer is said here. */
const load = (file: string): Promise<unknown> =>
  import(new URL(`../../../examples/playground/${file}`, import.meta.url).href);
const { Histogram } = (await load('histogram.js')) as { Histogram: new () => Histogram };
const { Recorder } = (await load('clients/recorder.js')) as { Recorder: new () => Recorder };
interface Board {
  add(report: object, now: number): void;
  clearErrors(): boolean;
  sums(): { requests: number; errors: number };
  live(
    now: number,
    pods: readonly string[],
    readySince: number,
  ): { errors: number; errorKinds: object; answers: object };
}

const { Board, maxOverMean } = (await load('board.js')) as {
  Board: new () => Board;
  maxOverMean: (answers: ReadonlyMap<string, number>, pods: readonly string[]) => number | undefined;
};
const { Core } = (await load('pods/core.js')) as {
  Core: new () => { work(workMs: number, isGone: () => boolean): Promise<void> };
};
const { seededRandom } = (await load('clients/arrivals.js')) as { seededRandom: (seed: number) => () => number };
interface Verdict {
  readonly lost: readonly string[];
  readonly uneven: readonly string[];
  readonly notJudged: readonly string[];
}
const { judge } = (await load('verdict.js')) as { judge: (rows: readonly Row[], picker?: string) => Verdict };

describe('the figures in the playground', () => {
  test('a quantile is right within 4 %, also after transfer between processes', () => {
    const counted = new Histogram();
    for (let ms = 1; ms <= 1_000; ms++) counted.record(ms);
    const arrived = new Histogram();
    arrived.addPairs(counted.pairs());
    for (const histogram of [counted, arrived]) {
      expect(histogram.total).toBe(1_000);
      expect((histogram.quantile(0.5) as number) / 500).toBeCloseTo(1, 1.3);
      expect((histogram.quantile(0.99) as number) / 990).toBeCloseTo(1, 1.3);
    }
    expect(new Histogram().quantile(0.5)).toBeUndefined();
  });

  test('max/mean counts pods without any request, and requests to pods that should get none', () => {
    const pods = ['a', 'b', 'c', 'd'];
    expect(maxOverMean(new Map(pods.map((pod) => [pod, 25])), pods)).toBe(1);
    expect(maxOverMean(new Map([['a', 100]]), pods)).toBe(4);
    expect(maxOverMean(new Map([['gone', 100]]), pods)).toBe(4);
    expect(maxOverMean(new Map(), pods)).toBeUndefined();
  });

  test('a request counts at the time it was due, whenever it ends', () => {
    const recorder = new Recorder();
    recorder.mark(1, 1_000);
    const before = recorder.begin(999);
    const after = recorder.begin(1_000);
    recorder.mark(2, 2_000);
    recorder.succeed(before, 'a', 5);
    recorder.fail(after, 'status 500', 'b');
    const [first, second] = recorder.take();
    expect(first).toMatchObject({ segment: 0, requests: 1, pods: { a: 1 }, errors: {} });
    expect(second).toMatchObject({ segment: 1, requests: 1, pods: { b: 1 }, errors: { 'status 500': 1 } });
    expect(recorder.take()).toEqual([]);
  });

  test('requests that ran while a client was late count only for the pod that answered', () => {
    const recorder = new Recorder();
    for (const pod of ['a', undefined]) recorder.leaveOut(recorder.begin(1), pod);
    expect(recorder.take()).toMatchObject([{ requests: 2, leftOut: 2, pods: { a: 1 }, errors: {}, latency: [] }]);
  });

  test('Heal clears the errors that are shown, not the totals', () => {
    const board = new Board();
    const tally = {
      segment: 0,
      requests: 2,
      pods: { a: 1 },
      latency: [],
      errors: { 'status 500': 1 },
      leftOut: 0,
      closes: {},
    };
    const report = { tallies: [tally], inFlight: 0, setAside: [], lateMs: 0 };
    board.add(report, 100);
    expect(board.live(100, ['a'], 0)).toMatchObject({ errors: 1, errorKinds: { 'status 500': 1 } });
    expect(board.clearErrors()).toBe(true);
    expect(board.live(100, ['a'], 0)).toMatchObject({ errors: 0, errorKinds: {}, answers: { a: 1 } });
    expect(board.clearErrors()).toBe(false);
    board.add(report, 200);
    expect(board.live(200, ['a'], 0).errors).toBe(1);
    expect(board.sums()).toMatchObject({ requests: 4, errors: 2 });
  });

  test('a connection counts where it was closed', () => {
    const recorder = new Recorder();
    recorder.mark(1, 1_000);
    recorder.close(1006, 999);
    for (const at of [1_000, 1_001]) recorder.close(1006, at);
    recorder.close(1012, 1_002);
    expect(recorder.take()).toMatchObject([
      { segment: 0, requests: 0, closes: { 1006: 1 } },
      { segment: 1, requests: 0, closes: { 1006: 2, 1012: 1 } },
    ]);
  });

  test('all clients draw the same arrival times from one seed', () => {
    const [one, other] = [seededRandom(7), seededRandom(7)];
    const drawn = Array.from({ length: 1_000 }, one);
    expect(Array.from({ length: 1_000 }, other)).toEqual(drawn);
    expect(drawn.every((value) => value >= 0 && value < 1)).toBe(true);
    expect(drawn.reduce((sum, value) => sum + value, 0) / drawn.length).toBeCloseTo(0.5, 1);
  });
});

describe('the core of a pod', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test('is shared evenly by its requests', async () => {
    const core = new Core();
    const ended: string[] = [];
    const begin = (name: string, workMs: number): void => {
      void core.work(workMs, () => false).then(() => ended.push(name));
    };
    begin('long', 30);
    await vi.advanceTimersByTimeAsync(10);
    begin('short', 5);
    await vi.advanceTimersByTimeAsync(9);
    expect(ended).toEqual([]);
    await vi.advanceTimersByTimeAsync(2);
    expect(ended).toEqual(['short']);
    // 20 ms were left of it, of which it got five beside the other.
    await vi.advanceTimersByTimeAsync(13);
    expect(ended).toEqual(['short']);
    await vi.advanceTimersByTimeAsync(2);
    expect(ended).toEqual(['short', 'long']);
  });

  test('stops working for a client that gave up', async () => {
    const core = new Core();
    let isOver = false;
    let isGone = false;
    let gone = 0;
    void core.work(100, () => isGone).then(() => gone++);
    isGone = true;
    void core
      .work(10, () => false)
      .then(() => {
        isOver = true;
      });
    await vi.advanceTimersByTimeAsync(11);
    expect([isOver, gone]).toEqual([true, 0]);
  });
});

describe('the verdict after --once', () => {
  const protocol = { title: 'HTTP', requests: 'requests' };
  const good: Row = {
    protocol,
    phase: 'kill -9',
    client: 'evenkeel',
    requests: 900,
    perPod: [100, 100],
    maxOverMean: 1.02,
    maxOverMeanLimit: 1.4,
    errors: 0,
    errorKinds: new Map(),
    unended: 0,
    cut: 0,
    notJudged: undefined,
  };
  const ordinary: Row = { ...good, client: 'ordinary', maxOverMean: 2 };
  const BUSY = 'this machine is busy';
  const lose = (kind: string, count = 1): Partial<Row> => ({ errors: count, errorKinds: new Map([[kind, count]]) });
  const verdictOn = (own: Partial<Row>, other: Partial<Row> = {}, picker?: string): Verdict =>
    judge(
      [
        { ...ordinary, ...other },
        { ...good, ...own },
      ],
      picker,
    );

  test('holds for a run without loss and evenly spread', () => {
    expect(verdictOn({})).toEqual({ lost: [], uneven: [], notJudged: [] });
  });

  test.each<[string, Partial<Row>, string]>([
    ['a lost request', lose('ECONNRESET'), 'HTTP, kill -9: evenkeel lost 1 of 900 requests (1 × ECONNRESET)'],
    ['a request that ran out of time', lose('no answer in 3 s'), 'lost 1 of 900'],
    ['a request that never ended', { unended: 2 }, 'never ended 2 of 900'],
    [
      'a connection that was cut before the pod was to go',
      { phase: 'rolling update', protocol: { ...protocol, longLived: true }, cut: 3 },
      'had 3 connections that ended without a close frame',
    ],
  ])('says that evenkeel lost, after %s, even if the ordinary client did, too', (_what, own, message) => {
    expect(verdictOn(own, lose('ECONNRESET', 9)).lost.join()).toContain(message);
  });

  test.each<[string, Partial<Row>, string | undefined, string]>([
    ['an uneven spread', { maxOverMean: 1.41 }, undefined, 'above 1.400'],
    ['no answer at all', { maxOverMean: Number.NaN }, undefined, 'NaN'],
    ['turns not kept', {}, 'round-robin', 'above 1.010'],
  ])('says that requests were spread unevenly after %s, which is no loss', (_what, own, picker, message) => {
    const { lost, uneven } = verdictOn(own, {}, picker);
    expect(lost).toEqual([]);
    expect(uneven.join()).toContain(message);
  });

  test('holds where kill -9 cut off answers that had begun, and nothing else was lost', () => {
    const begun: [string, number] = ['UNAVAILABLE, its answer had begun', 2];
    expect(verdictOn({ errors: 2, errorKinds: new Map([begun]) }).lost).toEqual([]);
    const more = new Map([begun, ['UNAVAILABLE', 1] as [string, number]]);
    expect(verdictOn({ errors: 3, errorKinds: more }).lost.join()).toContain('lost 3 of 900');
  });

  test.each<[string, Partial<Row>, Partial<Row>]>([
    ['what ran out of time', lose('no answer in 3 s'), {}],
    ['what the ordinary client lost, too', lose('ECONNRESET'), lose('ECONNRESET', 4)],
    ['how even it was', { maxOverMean: 1.9 }, {}],
    ['what had not ended', { unended: 3 }, {}],
  ])('does not judge on a busy machine %s, and says so once', (_what, own, other) => {
    const registered = { ...good, client: 'registered', notJudged: BUSY };
    const both = judge([{ ...ordinary, ...other, notJudged: BUSY }, registered, { ...good, ...own, notJudged: BUSY }]);
    expect(both).toEqual({ lost: [], uneven: [], notJudged: [`HTTP, kill -9: not judged: ${BUSY}`] });
  });

  test('says on a busy machine, too, what evenkeel lost where the ordinary client had an answer', () => {
    const own = { ...lose('ECONNRESET'), notJudged: BUSY };
    expect(verdictOn(own, { notJudged: BUSY }).lost.join()).toContain('lost 1 of 900');
  });

  test.each(['ordinary', 'round-robin'])('is about evenkeel alone: %s may lose requests', (client) => {
    const own = { ...good, client, errors: 9, maxOverMean: 3 };
    expect(judge([own])).toEqual({ lost: [], uneven: [], notJudged: [] });
  });
});
