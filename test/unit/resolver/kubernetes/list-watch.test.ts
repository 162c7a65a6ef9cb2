import { describe, expect, it } from 'vitest';
import { ResolveError } from '../../../../src/errors.js';
import type { EndpointSlice } from '../../../../src/resolver/kubernetes/endpoint-slice.js';
import { ListWatch } from '../../../../src/resolver/kubernetes/list-watch.js';
import type { Rng } from '../../../../src/runtime/rng.js';
import { FakeClock, settle } from '../../../../src/testing/fake-clock.js';
import { seededRng } from '../../../../src/testing/seeded-rng.js';
import { bookmark, FakeApiClient, type PendingGet, status, wireList, wireSlice } from './fake-api-client.js';

/** The loop alone, with its answers given by hand. */
class Loop {
  readonly clock: FakeClock;
  readonly client = new FakeApiClient();
  /** What was told, in order: `s1=10.0.0.1`, `-s1`, `list s1 s2`, `fail …`, `confirmed`, `warned …`. */
  readonly told: string[] = [];
  readonly errors: ResolveError[] = [];
  readonly listWatch: ListWatch;

  constructor(
    rng: Rng = seededRng(1),
    namespace: () => Promise<string> = async () => 'shop',
    clock: FakeClock = new FakeClock(),
    keepsProcessAlive = false,
  ) {
    this.clock = clock;
    const addresses = (slice: EndpointSlice): string => slice.members.map(({ address }) => address).join('+');
    this.listWatch = new ListWatch({
      client: this.client,
      namespace,
      service: 'orders',
      clock,
      rng,
      keepsProcessAlive,
      listener: {
        replaced: (slices) => this.told.push(['list', ...slices.map(({ name }) => name)].join(' ')),
        changed: (name, slice) => this.told.push(slice === undefined ? `-${name}` : `${name}=${addresses(slice)}`),
        failed: (error) => {
          this.errors.push(error);
          this.told.push(`fail ${error.code}`);
        },
        confirmed: () => {
          if (this.told.at(-1) !== 'confirmed') this.told.push('confirmed');
        },
        warned: (message) => this.told.push(`warned ${message}`),
      },
    });
    this.listWatch.start();
  }

  /** Answers the first list and opens the watch after it. */
  async begin(version = 10, addresses: readonly string[] = ['10.0.0.1']): Promise<PendingGet> {
    await settle();
    await this.list(version, addresses);
    return await this.openWatch();
  }

  async list(version: number, addresses: readonly string[] = ['10.0.0.1']): Promise<void> {
    expect(this.client.last.verb).toBe('list');
    await this.client.last.answer(200, wireList(version, [wireSlice('s1', version - 1, addresses)]));
  }

  async openWatch(): Promise<PendingGet> {
    const watch = this.client.last;
    expect(watch.verb).toBe('watch');
    await watch.open();
    return watch;
  }

  /** Lets the whole present pause pass; returns how long it was. */
  async nextPause(): Promise<number> {
    const before = this.client.all.length;
    const startMs = this.clock.now();
    while (this.client.all.length === before) {
      const next = this.clock.nextInMs;
      if (next === undefined) throw new Error('nothing to wait for');
      await this.clock.advanceAsync(next);
    }
    return this.clock.now() - startMs;
  }

  get requests(): string {
    return this.client.all.map(({ verb, version }) => `${verb} ${version}`).join(', ');
  }
}

const low: Rng = { next: () => 0 };
const high: Rng = { next: () => 0.999999 };

describe('W1 versions of lists', () => {
  it('the first list asks for version 0, the watch goes on from the list', async () => {
    const loop = new Loop();
    await loop.begin(10);
    expect(loop.requests).toBe('list 0, watch 10');
    expect(loop.client.all[0]?.request.path).toBe('/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices');
    expect(loop.client.all[0]?.request.query.labelSelector).toBe('kubernetes.io/service-name=orders');
    expect(loop.told).toEqual(['list s1', 'confirmed']);
  });

  it('a later list asks for nothing older than the last version seen, without a limit (W2)', async () => {
    const loop = new Loop();
    const watch = await loop.begin(10);
    watch.event('MODIFIED', wireSlice('s1', 20, ['10.0.0.2']));
    watch.event('ERROR', status(422));
    await settle();
    await loop.nextPause();
    expect(loop.requests).toBe('list 0, watch 10, list 20');
    expect(loop.client.last.request.query.limit).toBeUndefined();
  });

  it('410 to a list: a consistent read at once, then back to normal', async () => {
    const loop = new Loop();
    const watch = await loop.begin(10);
    watch.event('ERROR', status(400));
    await settle();
    await loop.nextPause();
    await loop.client.last.answer(410, status(410, 'Expired'));
    expect(loop.requests).toBe('list 0, watch 10, list 10, list ');
    await loop.list(50);
    expect(loop.requests).toBe('list 0, watch 10, list 10, list , watch 50');
    (await loop.openWatch()).event('ERROR', status(400));
    await settle();
    await loop.nextPause();
    expect(loop.client.last.version).toBe('50');
  });

  it('504 ResourceVersionTooLarge to a list: a consistent read at once', async () => {
    const loop = new Loop();
    const watch = await loop.begin(10);
    watch.event('ERROR', status(400));
    await settle();
    await loop.nextPause();
    await loop.client.last.answer(504, status(504, 'Timeout', [{ reason: 'ResourceVersionTooLarge' }]), 1_000);
    expect(loop.requests).toBe('list 0, watch 10, list 10, list ');
  });
});

describe('W2 pages', () => {
  it('replaces the set only when all pages are in', async () => {
    const loop = new Loop();
    await settle();
    await loop.client.last.answer(200, wireList(10, [wireSlice('s1', 1, [])], 'token-1'));
    expect(loop.told).toEqual([]);
    expect(loop.client.last.request.query).toMatchObject({ continue: 'token-1', resourceVersion: '', limit: '500' });
    await loop.client.last.answer(200, wireList(10, [wireSlice('s2', 2, [])]));
    expect(loop.told).toEqual(['list s1 s2', 'confirmed']);
  });

  it('case 46: 410 on a continue token: one full list without a limit, nothing changes before', async () => {
    const loop = new Loop();
    await settle();
    await loop.client.last.answer(200, wireList(10, [wireSlice('s1', 1, [])], 'token-1'));
    await loop.client.last.answer(410, status(410, 'Expired'));
    expect(loop.told).toEqual([]);
    expect(loop.client.last.request.query.limit).toBeUndefined();
    expect(loop.client.last.request.query.continue).toBeUndefined();
    await loop.list(20);
    expect(loop.told).toEqual(['list s1', 'confirmed']);
    expect(loop.client.count('list')).toBe(3);
  });
});

describe('W4 the end of a watch', () => {
  it('asks for bookmarks and a time-out of 300 to 600 s', async () => {
    for (const [rng, seconds] of [
      [low, '300'],
      [high, '600'],
    ] as const) {
      const loop = new Loop(rng);
      const watch = await loop.begin();
      expect(watch.request.query).toMatchObject({ allowWatchBookmarks: 'true', timeoutSeconds: seconds });
      loop.listWatch.close();
    }
  });

  it('a clean end after the time-out: watched again at once from the last version, no list, nothing told', async () => {
    const loop = new Loop(high);
    const watch = await loop.begin(10);
    watch.event('MODIFIED', wireSlice('s1', 20, ['10.0.0.2']));
    await loop.clock.advanceAsync(400_000);
    const before = [...loop.told];
    await watch.end();
    expect(loop.requests).toBe('list 0, watch 10, watch 20');
    expect(loop.told).toEqual(before);
  });
});

describe('W5 versions of events', () => {
  it('ADDED, MODIFIED, DELETED and BOOKMARK advance the version after they are applied', async () => {
    const loop = new Loop();
    let watch = await loop.begin(10);
    const resumeAfter = async (type: string, object: object): Promise<string | undefined> => {
      watch.event(type, object);
      await loop.clock.advanceAsync(2_000);
      await watch.end();
      const { version } = loop.client.last;
      watch = await loop.openWatch();
      return version;
    };
    expect(await resumeAfter('ADDED', wireSlice('s2', 11, ['10.0.0.2']))).toBe('11');
    expect(await resumeAfter('MODIFIED', wireSlice('s2', 12, ['10.0.0.3']))).toBe('12');
    expect(await resumeAfter('DELETED', wireSlice('s2', 13, ['10.0.0.3']))).toBe('13');
    expect(await resumeAfter('BOOKMARK', bookmark(99))).toBe('99');
    expect(loop.told.filter((line) => line !== 'confirmed')).toEqual(['list s1', 's2=10.0.0.2', 's2=10.0.0.3', '-s2']);
  });

  it('a slice whose label turned away is gone, also as MODIFIED (S1)', async () => {
    const loop = new Loop();
    const watch = await loop.begin(10);
    watch.event('MODIFIED', wireSlice('s1', 11, ['10.0.0.1'], 'carts'));
    expect(loop.told).toContain('-s1');
  });
});

describe('W7 bad lines', () => {
  const bad: readonly (readonly [string, string | Uint8Array])[] = [
    ['no JSON', '{"type":"MODIFIED",\n'],
    ['HTML', '<html><body>502</body></html>\n'],
    ['no object', '[1,2]\n'],
    ['null', 'null\n'],
    ['an empty line', '\n'],
    ['no type', '{"object":{"metadata":{}}}\n'],
    ['no metadata', '{"type":"MODIFIED","object":{"kind":"EndpointSlice"}}\n'],
    ['no name', '{"type":"MODIFIED","object":{"kind":"EndpointSlice","metadata":{"resourceVersion":"11"}}}\n'],
    [
      'no UTF-8',
      Buffer.concat([
        Buffer.from('{"type":"MODIFIED","object":{"metadata":{"name":"'),
        Buffer.of(0xff, 0xfe),
        Buffer.from('"}}}\n'),
      ]),
    ],
  ];
  for (const [what, bytes] of bad) {
    it(`case 45: ${what}: the stream is dropped, what follows on it is not read, the event arrives after resuming`, async () => {
      const loop = new Loop();
      const watch = await loop.begin(10);
      await loop.clock.advanceAsync(5_000);
      watch.write(bytes);
      watch.event('MODIFIED', wireSlice('s1', 12, ['10.0.0.9']));
      await settle();
      expect(loop.told.some((line) => line.includes('10.0.0.9'))).toBe(false);
      expect(loop.requests).toBe('list 0, watch 10, watch 10');
      (await loop.openWatch()).event('MODIFIED', wireSlice('s1', 12, ['10.0.0.9']));
      expect(loop.told).toContain('s1=10.0.0.9');
    });
  }

  it('case 44: a stream that ends inside a line: nothing changes, resumed at the last version applied', async () => {
    const loop = new Loop();
    const watch = await loop.begin(10);
    watch.event('MODIFIED', wireSlice('s1', 11, ['10.0.0.2']));
    await loop.clock.advanceAsync(5_000);
    watch.write('{"type":"MODIFIED","object":{"kind":"EndpointSl');
    await watch.end();
    expect(loop.requests).toBe('list 0, watch 10, watch 11');
    expect(loop.told.filter((line) => line.startsWith('s1='))).toEqual(['s1=10.0.0.2']);
  });

  it('two events and a bad line in one piece: the two are applied, the resumed watch starts after them', async () => {
    const loop = new Loop();
    const watch = await loop.begin(10);
    await loop.clock.advanceAsync(5_000);
    const line = (version: number): string =>
      `${JSON.stringify({ type: 'MODIFIED', object: wireSlice('s1', version, [`10.0.0.${version}`]) })}\n`;
    watch.write(`${line(11)}${line(12)}rubbish\n${line(13)}`);
    await settle();
    expect(loop.client.last.version).toBe('12');
  });

  it('objects of another kind are ignored and reported once; unknown event types are ignored', async () => {
    const loop = new Loop();
    const watch = await loop.begin(10);
    watch.event('MODIFIED', { kind: 'Pod', metadata: { name: 'p', resourceVersion: '77' } });
    watch.event('MODIFIED', { kind: 'Pod', metadata: { name: 'p', resourceVersion: '78' } });
    watch.event('TELEPORTED', wireSlice('s1', 79, ['10.0.0.9']));
    for (let kind = 0; kind < 100; kind++) watch.event('ADDED', { kind: `Kind${kind}`, metadata: {} });
    watch.event('MODIFIED', wireSlice('s1', 11, ['10.0.0.2']));
    expect(loop.told.filter((line) => line.startsWith('warned'))).toHaveLength(1);
    expect(loop.told).toContain('s1=10.0.0.2');
    expect(loop.client.count('watch')).toBe(1);
  });

  it('a line without an end is given up at 32 MiB', async () => {
    const loop = new Loop();
    const watch = await loop.begin(10);
    await loop.clock.advanceAsync(5_000);
    for (let mebibyte = 0; mebibyte < 33; mebibyte++) watch.write(Buffer.alloc(1024 * 1024, 0x20));
    await settle();
    expect(loop.requests).toBe('list 0, watch 10, watch 10');
  });
});

describe('W8 ERROR events', () => {
  it('410: exactly one list, a consistent one, at once', async () => {
    for (const object of [status(410, 'Expired'), status(410, 'Gone'), status(0, 'Expired')]) {
      const loop = new Loop();
      const watch = await loop.begin(10);
      watch.event('ERROR', object);
      await settle();
      expect(loop.requests).toBe('list 0, watch 10, list ');
      await loop.list(30);
      expect(loop.requests).toBe('list 0, watch 10, list , watch 30');
      loop.listWatch.close();
    }
  });

  it('410 after every list: no hot loop', async () => {
    const loop = new Loop(low);
    const watch = await loop.begin(10);
    watch.event('ERROR', status(410, 'Expired'));
    await settle();
    await loop.list(30);
    (await loop.openWatch()).event('ERROR', status(410, 'Expired'));
    await settle();
    expect(loop.client.count('list')).toBe(2);
    expect(await loop.nextPause()).toBe(800);
    expect(loop.client.count('list')).toBe(3);
  });

  it('429: backs off at least as long as asked, then watches from the same version', async () => {
    const loop = new Loop(low);
    const watch = await loop.begin(10);
    watch.event('ERROR', { ...status(429), details: { retryAfterSeconds: 7 } });
    await settle();
    expect(await loop.nextPause()).toBe(7_000);
    expect(loop.requests).toBe('list 0, watch 10, watch 10');
  });

  it('500: watches again; lists only when it goes on for more than a minute', async () => {
    const loop = new Loop(low);
    let watch = await loop.begin(10);
    const startMs = loop.clock.now();
    while (loop.clock.now() - startMs <= 60_000) {
      expect(loop.client.count('list')).toBe(1);
      watch.event('ERROR', status(500, 'InternalError'));
      await settle();
      await loop.nextPause();
      watch = loop.client.last;
      if (watch.verb === 'watch') await watch.open();
    }
    if (watch.verb === 'watch') {
      watch.event('ERROR', status(500, 'InternalError'));
      await settle();
      await loop.nextPause();
    }
    expect(loop.client.count('list')).toBe(2);
  });

  it('others: backs off and lists', async () => {
    const loop = new Loop(low);
    const watch = await loop.begin(10);
    watch.event('ERROR', status(504, 'Timeout'));
    await settle();
    expect(await loop.nextPause()).toBe(800);
    expect(loop.requests).toBe('list 0, watch 10, list 10');
  });
});

describe('W9 watches that end at once', () => {
  it('count as failures: backs off, without a list', async () => {
    const loop = new Loop(low);
    await loop.begin(10);
    const pauses: number[] = [];
    for (let round = 0; round < 5; round++) {
      await loop.client.last.open();
      await loop.client.last.end();
      pauses.push(await loop.nextPause());
    }
    expect(pauses).toEqual([800, 1_600, 3_200, 6_400, 12_800]);
    expect(loop.client.count('list')).toBe(1);
    expect(loop.told.filter((line) => line.startsWith('fail'))).toEqual(['fail EVENKEEL_RESOLVE']);
  });

  it('a bookmark that tells nothing new does not make a stream useful', async () => {
    const loop = new Loop(low);
    const watch = await loop.begin(10);
    watch.event('BOOKMARK', bookmark(10));
    await watch.end();
    expect(loop.client.count('watch')).toBe(1);
    expect(await loop.nextPause()).toBe(800);
  });

  it('streams that bring one event each and end are followed at once three times, then after a breath', async () => {
    const loop = new Loop(low);
    let watch = await loop.begin(10);
    for (let round = 1; round <= 3; round++) {
      watch.event('MODIFIED', wireSlice('s1', 10 + round, ['10.0.0.1']));
      await watch.end();
      expect(loop.client.count('watch')).toBe(round + 1);
      watch = await loop.openWatch();
    }
    watch.event('MODIFIED', wireSlice('s1', 20, ['10.0.0.1']));
    await watch.end();
    expect(loop.client.count('watch')).toBe(4);
    expect(await loop.nextPause()).toBe(200);
  });
});

describe('W10 watchdogs', () => {
  it('no headers within 30 s: cut, backed off, watched again', async () => {
    const loop = new Loop(low);
    await settle();
    await loop.list(10);
    const watch = loop.client.last;
    await loop.clock.advanceAsync(29_999);
    expect(watch.aborted).toBe(false);
    await loop.clock.advanceAsync(1);
    expect(watch.aborted).toBe(true);
    expect(await loop.nextPause()).toBe(800);
    expect(loop.requests).toBe('list 0, watch 10, watch 10');
  });

  it('a watch that outlives its time-out by 30 s is cut and resumed at once', async () => {
    const loop = new Loop(low);
    const watch = await loop.begin(10);
    await loop.clock.advanceAsync(329_999);
    expect(watch.aborted).toBe(false);
    await loop.clock.advanceAsync(1);
    expect(watch.aborted).toBe(true);
    expect(loop.requests).toBe('list 0, watch 10, watch 10');
  });

  it('once bookmarks were seen, 3 minutes of silence end the stream', async () => {
    const loop = new Loop(high);
    const watch = await loop.begin(10);
    await loop.clock.advanceAsync(60_000);
    watch.event('BOOKMARK', bookmark(11));
    await loop.clock.advanceAsync(100_000);
    // Any byte counts.
    watch.write('{"type":');
    await loop.clock.advanceAsync(179_999);
    expect(watch.aborted).toBe(false);
    await loop.clock.advanceAsync(1);
    expect(watch.aborted).toBe(true);
    expect(loop.requests).toBe('list 0, watch 10, watch 11');
  });

  it('without bookmarks silence is no sign of anything', async () => {
    const loop = new Loop(high);
    const watch = await loop.begin(10);
    watch.event('MODIFIED', wireSlice('s1', 11, ['10.0.0.1']));
    await loop.clock.advanceAsync(500_000);
    expect(watch.aborted).toBe(false);
  });

  it('a list has 60 s in all, its pages together', async () => {
    const loop = new Loop(low);
    await settle();
    await loop.clock.advanceAsync(40_000);
    await loop.client.last.answer(200, wireList(10, [], 'token'));
    await loop.clock.advanceAsync(20_000);
    expect(loop.client.last.aborted).toBe(true);
    expect(loop.errors.at(-1)?.message).toContain('no answer to the list within 60 s');
  });

  it('tells of a first list that is not answered after 3 s, and goes on waiting for it', async () => {
    const loop = new Loop(low);
    await settle();
    await loop.clock.advanceAsync(2_999);
    expect(loop.errors).toEqual([]);
    await loop.clock.advanceAsync(1);
    expect(loop.errors.map(({ message }) => message)).toEqual([
      'could not list endpointslices.discovery.k8s.io in the namespace shop at https://10.96.0.1:443: no answer for 3 s; still waiting',
    ]);
    expect(loop.client.last.aborted).toBe(false);
    await loop.client.last.answer(200, wireList(10, []));
    expect(loop.told.slice(1)).toEqual(['list', 'confirmed']);
  });
});

describe('W12 pauses', () => {
  it('800 ms doubling to 30 s, each plus up to as much again', async () => {
    for (const [rng, factor] of [
      [low, 1],
      [high, 2],
    ] as const) {
      const loop = new Loop(rng);
      await settle();
      const pauses: number[] = [];
      for (let round = 0; round < 8; round++) {
        await loop.client.last.fail('ECONNREFUSED');
        pauses.push(Math.round(await loop.nextPause()));
      }
      expect(pauses).toEqual([800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000].map((ms) => ms * factor));
      loop.listWatch.close();
    }
  });

  it('starts again short after 2 minutes without a pause', async () => {
    const loop = new Loop(low);
    await settle();
    await loop.client.last.fail('ECONNREFUSED');
    await loop.nextPause();
    await loop.client.last.fail('ECONNREFUSED');
    await loop.nextPause();
    const watch = await loop.begin(10);
    await loop.clock.advanceAsync(120_001);
    await watch.fail('ECONNRESET');
    await loop.client.last.fail('ECONNREFUSED');
    expect(await loop.nextPause()).toBe(800);
  });

  it('Retry-After is a lower bound, up to 10 minutes', async () => {
    const absurd = new Loop(low);
    await settle();
    await absurd.client.last.answer(503, { details: { retryAfterSeconds: 999_999 } });
    expect(await absurd.nextPause()).toBe(600_000);
    const loop = new Loop(low);
    await settle();
    await loop.client.last.answer(503, 'busy', 20_000);
    expect(await loop.nextPause()).toBe(20_000);
  });
});

describe('W17 a list from time to time', () => {
  it('within 30 minutes a clean end is followed by a list from the last version', async () => {
    for (const rng of [low, high, seededRng(5)]) {
      const loop = new Loop(rng);
      let watch = await loop.begin(10);
      const startMs = loop.clock.now();
      for (let watches = 0; loop.client.count('list') === 1 && watches < 10; watches++) {
        await loop.clock.advanceAsync(Number(watch.request.query.timeoutSeconds) * 1_000);
        await watch.end();
        if (loop.client.last.verb === 'watch') watch = await loop.openWatch();
      }
      expect([loop.client.last.verb, loop.client.last.version]).toEqual(['list', '10']);
      expect(loop.clock.now() - startMs).toBeLessThanOrEqual(30 * 60_000);
      expect(loop.clock.now() - startMs).toBeGreaterThanOrEqual(10 * 60_000);
      loop.listWatch.close();
    }
  });
});

describe('the table of results', () => {
  it('403: retried twice within 2 s, then told once as EVENKEEL_FORBIDDEN, and tried every 30 to 60 s', async () => {
    const loop = new Loop();
    await settle();
    const startMs = loop.clock.now();
    await loop.client.last.answer(403, status(403, 'Forbidden'));
    await loop.nextPause();
    await loop.client.last.answer(403, status(403, 'Forbidden'));
    await loop.nextPause();
    expect(loop.clock.now() - startMs).toBeLessThanOrEqual(2_000);
    expect(loop.errors).toEqual([]);
    for (let round = 0; round < 3; round++) {
      await loop.client.last.answer(403, status(403, 'Forbidden'));
      const pauseMs = await loop.nextPause();
      expect(pauseMs).toBeGreaterThanOrEqual(30_000);
      expect(pauseMs).toBeLessThanOrEqual(60_000);
    }
    expect(loop.errors).toHaveLength(1);
    expect(loop.errors[0]).toMatchObject({ code: 'EVENKEEL_FORBIDDEN', permanent: true });
    expect(loop.errors[0]?.message).toContain('list endpointslices.discovery.k8s.io in the namespace shop');
    await loop.list(10);
    expect(loop.told.at(-1)).toBe('confirmed');
  });

  it('403 of 20 ms after a restart: nothing told, no list', async () => {
    const loop = new Loop();
    const watch = await loop.begin(10);
    await loop.clock.advanceAsync(60_000);
    await watch.fail('ECONNRESET');
    await loop.client.last.answer(403, status(403, 'Forbidden'));
    await loop.nextPause();
    await loop.openWatch();
    expect(loop.errors).toEqual([]);
    expect(loop.requests).toBe('list 0, watch 10, watch 10, watch 10');
  });

  it('403 at every one of many restarts: each is a first one', async () => {
    const loop = new Loop();
    let watch = await loop.begin(10);
    for (let restart = 0; restart < 5; restart++) {
      await loop.clock.advanceAsync(60_000);
      await watch.fail('ECONNRESET');
      await loop.client.last.answer(403, status(403, 'Forbidden'));
      await loop.nextPause();
      watch = await loop.openWatch();
    }
    expect(loop.errors).toEqual([]);
    expect(loop.client.count('list')).toBe(1);
  });

  it('403 on the watch alone: told once, then listed every 30 to 60 s instead', async () => {
    const loop = new Loop();
    await settle();
    await loop.list(10);
    for (let round = 0; round < 3; round++) {
      await loop.client.last.answer(403, status(403, 'Forbidden'));
      await loop.nextPause();
    }
    for (let round = 0; round < 3; round++) {
      await loop.list(20 + round, [`10.0.0.${round}`]);
      await loop.client.last.answer(403, status(403, 'Forbidden'));
      expect(await loop.nextPause()).toBeGreaterThanOrEqual(30_000);
      expect(loop.client.last.verb).toBe('list');
    }
    expect(loop.errors).toHaveLength(1);
    expect(loop.errors[0]?.message).toContain('watch endpointslices');
  });

  it('404: told as permanent, tried again slowly', async () => {
    const loop = new Loop();
    await settle();
    await loop.client.last.answer(404, '404 page not found');
    expect(loop.errors[0]).toMatchObject({ code: 'EVENKEEL_RESOLVE', permanent: true });
    expect(await loop.nextPause()).toBeGreaterThanOrEqual(30_000);
  });

  it('429 and 503 on a watch: the same version, no list', async () => {
    const loop = new Loop(low);
    const watch = await loop.begin(10);
    await loop.clock.advanceAsync(60_000);
    await watch.end();
    await loop.client.last.answer(429, 'Too many requests', 2_000);
    expect(await loop.nextPause()).toBe(2_000);
    await loop.client.last.answer(503, status(503), undefined);
    expect(await loop.nextPause()).toBe(1_600);
    expect(loop.requests).toBe('list 0, watch 10, watch 10, watch 10, watch 10');
  });

  it('ECONNREFUSED on a watch: the same version, no list', async () => {
    const loop = new Loop(low);
    const watch = await loop.begin(10);
    await loop.clock.advanceAsync(60_000);
    await watch.fail('ECONNRESET');
    await loop.client.last.fail('ECONNREFUSED');
    expect(await loop.nextPause()).toBe(800);
    expect(loop.requests).toBe('list 0, watch 10, watch 10, watch 10');
  });

  it('ECONNRESET during a watch: resumed at once, nothing told', async () => {
    const loop = new Loop();
    const watch = await loop.begin(10);
    await loop.clock.advanceAsync(60_000);
    const before = loop.told.length;
    await watch.fail('ECONNRESET');
    expect(loop.requests).toBe('list 0, watch 10, watch 10');
    expect(loop.told.length).toBe(before);
  });

  it('each kind of failure is told once, until in touch again', async () => {
    const loop = new Loop();
    await settle();
    for (const code of ['ECONNREFUSED', 'ECONNREFUSED', 'ENOTFOUND', 'CERT_HAS_EXPIRED', 'ECONNREFUSED']) {
      await loop.client.last.fail(code);
      await loop.nextPause();
    }
    expect(loop.errors.map((error) => error.message.replace(/.*scripted /, ''))).toEqual([
      'ECONNREFUSED',
      'ENOTFOUND',
      'CERT_HAS_EXPIRED',
    ]);
    await loop.list(10);
    await loop.client.last.fail('ECONNREFUSED');
    expect(loop.errors).toHaveLength(4);
  });

  it('a list that is cut short, or no list: failed, the last set stays', async () => {
    const loop = new Loop();
    await loop.begin(10);
    const before = loop.told.filter((line) => line.startsWith('list')).length;
    for (const body of [
      '{"kind":"EndpointSliceList","met',
      '[]',
      '{}',
      '{"metadata":{"resourceVersion":"9"},"items":{}}',
      'null',
    ]) {
      const again = new Loop();
      await settle();
      await again.client.last.answer(200, body);
      expect(again.errors).toHaveLength(1);
      expect(again.told.some((line) => line.startsWith('list'))).toBe(false);
      again.listWatch.close();
    }
    expect(loop.told.filter((line) => line.startsWith('list')).length).toBe(before);
  });

  it('items: null is an empty list', async () => {
    const loop = new Loop();
    await settle();
    await loop.client.last.answer(200, { metadata: { resourceVersion: '10' }, items: null });
    expect(loop.told).toEqual(['list', 'confirmed']);
  });

  it('a namespace that cannot be found out: told as it is, tried again', async () => {
    let known = false;
    const loop = new Loop(low, async () => {
      if (!known) throw new ResolveError('no namespace', { permanent: true });
      return 'shop';
    });
    await settle();
    expect(loop.errors).toMatchObject([{ message: 'no namespace', permanent: true }]);
    known = true;
    expect(await loop.nextPause()).toBe(30_000);
    await loop.list(10);
  });
});

describe('being in touch', () => {
  it('is said at the first line of a stream, or after a second of an open one, never at its headers', async () => {
    const loop = new Loop(low);
    const watch = await loop.begin(10);
    await loop.clock.advanceAsync(60_000);
    await watch.fail('ECONNRESET');
    await loop.client.last.fail('ECONNREFUSED');
    await loop.nextPause();
    expect(loop.told.at(-1)).toBe('fail EVENKEEL_RESOLVE');
    await loop.openWatch();
    await loop.clock.advanceAsync(999);
    expect(loop.told.at(-1)).toBe('fail EVENKEEL_RESOLVE');
    await loop.clock.advanceAsync(1);
    expect(loop.told.at(-1)).toBe('confirmed');
  });
});

describe('a blocked event loop', () => {
  it('is no silence of the server: what arrived meanwhile is read first', async () => {
    const clock = new FakeClock();
    const loop = new Loop(low, undefined, clock);
    await settle();
    await loop.list(10);
    const watch = loop.client.last;
    await clock.advanceAsync(29_000);
    // The limit falls due in the middle of a stall of a minute; the answer was there all along.
    await clock.stall(60_000);
    await clock.advanceAsync(900);
    expect(watch.aborted).toBe(false);
    await watch.open();
    await clock.advanceAsync(1_000);
    expect(watch.aborted).toBe(false);
    expect(loop.errors).toEqual([]);
  });

  it('does not hide a server that really is silent', async () => {
    const clock = new FakeClock();
    const loop = new Loop(low, undefined, clock);
    await settle();
    await loop.list(10);
    const watch = loop.client.last;
    await clock.advanceAsync(29_000);
    await clock.stall(60_000);
    await clock.advanceAsync(2_000);
    expect(watch.aborted).toBe(true);
  });
});

describe('keepsProcessAlive', () => {
  it('holds the process in the pauses between requests, too', async () => {
    for (const keepsProcessAlive of [true, false]) {
      const clock = new FakeClock();
      const loop = new Loop(low, undefined, clock, keepsProcessAlive);
      await settle();
      await loop.client.last.fail('ECONNREFUSED');
      expect(clock.referencedTimers).toBe(keepsProcessAlive ? 1 : 0);
      loop.listWatch.close();
    }
  });
});

describe('W13 close', () => {
  it('aborts the request, leaves no timer and tells nothing more', async () => {
    for (const stage of ['list', 'headers', 'stream', 'pause'] as const) {
      const loop = new Loop();
      await settle();
      if (stage === 'pause') await loop.client.last.fail('ECONNREFUSED');
      if (stage === 'headers' || stage === 'stream') await loop.list(10);
      if (stage === 'stream') await loop.openWatch();
      const { length } = loop.told;
      loop.listWatch.close();
      await settle();
      if (stage !== 'pause') expect(loop.client.last.aborted).toBe(true);
      expect(loop.clock.timers).toBe(0);
      const requests = loop.client.all.length;
      await loop.clock.advanceAsync(3_600_000);
      expect(loop.client.all.length).toBe(requests);
      expect(loop.told.length).toBe(length);
    }
  });
});
