import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

interface Row {
  readonly protocol: { readonly title: string; readonly requests: string };
  readonly phase: string;
  readonly client: string;
  readonly requests: number;
  readonly perPod: readonly number[];
  readonly maxOverMean: number;
  readonly maxOverMeanLimit: number;
  readonly errors: number;
  readonly errorKinds: ReadonlyMap<string, number>;
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
const { judge } = (await load('table.js')) as { judge: (rows: readonly Row[], picker?: string) => string[] };

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
  const good: Row = {
    protocol: { title: 'HTTP', requests: 'requests' },
    phase: 'kill -9',
    client: 'evenkeel',
    requests: 900,
    perPod: [100, 100],
    maxOverMean: 1.02,
    maxOverMeanLimit: 1.4,
    errors: 0,
    errorKinds: new Map(),
  };

  test('holds for a run without loss and evenly spread', () => {
    expect(judge([good])).toEqual([]);
  });

  test.each([
    ['a lost request', { errors: 1, errorKinds: new Map([['ECONNRESET', 1]]) }, undefined, 'lost 1 of 900'],
    ['an uneven spread', { maxOverMean: 1.41 }, undefined, 'above 1.400'],
    ['no answer at all', { maxOverMean: Number.NaN }, undefined, 'NaN'],
    ['turns not kept', {}, 'round-robin', 'above 1.010'],
  ])('does not hold after %s', (_what, change, picker, message) => {
    expect(judge([{ ...good, ...change }], picker).join()).toContain(message);
  });

  test('holds where kill -9 cut off answers that had begun, and nothing else was lost', () => {
    const begun: [string, number] = ['UNAVAILABLE, its answer had begun', 2];
    expect(judge([{ ...good, errors: 2, errorKinds: new Map([begun]) }])).toEqual([]);
    const more = new Map([begun, ['UNAVAILABLE', 1] as [string, number]]);
    expect(judge([{ ...good, errors: 3, errorKinds: more }]).join()).toContain('lost 3 of 900');
  });

  test('expects even counts of the default picker up to three pods: a single client prefers some of more', () => {
    const uneven = { ...good, perPod: [200, 100, 50, 30], maxOverMean: 2.1 };
    expect(judge([uneven])).toEqual([]);
    expect(judge([uneven], 'p2c').join()).toContain('above 1.400');
    expect(judge([{ ...uneven, maxOverMean: Number.NaN }]).join()).toContain('NaN');
  });

  test.each(['ordinary', 'round-robin'])('is about evenkeel alone: %s may lose requests', (client) => {
    expect(judge([{ ...good, client, errors: 9, maxOverMean: 3 }])).toEqual([]);
  });
});
