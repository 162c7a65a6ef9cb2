import { describe, expect, it } from 'vitest';
import { FakeClock, settle } from '../../../../../src/testing/fake-clock.js';
import { bookmark, wireList, wireSlice } from '../fake-api-client.js';
import { high, Loop, low } from '../loop.js';

describe('W7 invalid lines', () => {
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
    it(`case 45: ${what}: the stream is dropped, nothing more is read from it, the event arrives after resuming`, async () => {
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

  it('two events and an invalid line in one chunk: the two are applied, the resumed watch starts after them', async () => {
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

  it('a line without an end is dropped at 4 MiB', async () => {
    const loop = new Loop();
    const watch = await loop.begin(10);
    await loop.clock.advanceAsync(5_000);
    const mebibyte = Buffer.alloc(1024 * 1024, 0x20);
    for (let count = 0; count < 4; count++) watch.write(mebibyte);
    await settle();
    expect(loop.requests).toBe('list 0, watch 10');
    watch.write(mebibyte);
    await settle();
    expect(loop.requests).toBe('list 0, watch 10, watch 10');
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

  it('a watch that exceeds its timeout by 30 s is cut and resumed at once', async () => {
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

  it('without bookmarks silence proves nothing', async () => {
    const loop = new Loop(high);
    const watch = await loop.begin(10);
    watch.event('MODIFIED', wireSlice('s1', 11, ['10.0.0.1']));
    await loop.clock.advanceAsync(500_000);
    expect(watch.aborted).toBe(false);
  });

  it('a list may take 60 s in all, all its pages together', async () => {
    const loop = new Loop(low);
    await settle();
    await loop.clock.advanceAsync(40_000);
    await loop.client.last.answer(200, wireList(10, [], 'token'));
    await loop.clock.advanceAsync(20_000);
    expect(loop.client.last.aborted).toBe(true);
    expect(loop.errors.at(-1)?.message).toContain('no answer to the list within 60 s');
  });

  it('a first list that is not answered after 3 s is reported, and still waited for', async () => {
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

describe('a blocked event loop', () => {
  it('is not taken for silence of the server: what arrived meanwhile is read first', async () => {
    const clock = new FakeClock();
    const loop = new Loop(low, undefined, clock);
    await settle();
    await loop.list(10);
    const watch = loop.client.last;
    await clock.advanceAsync(29_000);
    // The limit falls due in the middle of a stall of a minute; the answer was there all along.
    await clock.stall(60_000);
    await clock.advanceAsync(200);
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

  it('does not hide it in a process whose event loop is always blocked, either', async () => {
    const clock = new FakeClock();
    const loop = new Loop(low, undefined, clock);
    await settle();
    await loop.list(10);
    const watch = loop.client.last;
    await clock.advanceAsync(1_000);
    for (let stalls = 0; stalls < 60 && !watch.aborted; stalls++) await clock.stall(2_500);
    expect(watch.aborted).toBe(true);
  });
});
