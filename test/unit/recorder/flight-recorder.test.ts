import { describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { isEvenkeelError } from '../../../src/errors.js';
import { inFlight } from '../../../src/load/in-flight.js';
import { relativeLatency } from '../../../src/load/relative-latency.js';
import { hash } from '../../../src/picker/hash.js';
import { p2c } from '../../../src/picker/p2c.js';
import { preferenceOrder } from '../../../src/picker/preference-order.js';
import { contentsOf, explainCall } from '../../../src/recorder/explained.js';
import { type FlightRecorder, flightRecorder } from '../../../src/recorder/flight-recorder.js';
import { keyOfHash } from '../../../src/recorder/key-of-hash.js';
import { type DumpedBalancer, readDump } from '../../../src/recorder/read-dump.js';
import { hash32 } from '../../../src/runtime/hash.js';
import { stagesOf } from '../../../src/stage/standard-stages.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';
import { bytesPerCall } from '../../support/allocation.js';
import { BalancerFixture } from '../../support/fixtures/balancer-fixture.js';

const pods = (count: number, from = 1): { address: string; port: number; name: string; zone: string }[] =>
  Array.from({ length: count }, (_, index) => ({
    address: `10.1.0.${from + index}`,
    port: 80,
    name: `orders-${from + index}`,
    zone: 'zurich-a',
  }));

/** A balancer that records, with `calls` calls of 3 ms made. */
async function recorded(
  recorder: FlightRecorder,
  calls: number,
  {
    picker = p2c(),
    load = inFlight(),
    key,
  }: { picker?: ReturnType<typeof p2c>; load?: ReturnType<typeof inFlight>; key?: string } = {},
): Promise<BalancerFixture> {
  const fixture = new BalancerFixture({ recorder, picker, load, stages: stagesOf() });
  await fixture.publish(...pods(3));
  for (let call = 0; call < calls; call++) {
    const lease = fixture.balancer.pick({ key });
    fixture.clock.advance(3);
    lease?.end(outcomes.success);
  }
  return fixture;
}

const only = (recorder: FlightRecorder): DumpedBalancer => readDump(recorder.dump()).balancers[0] as DumpedBalancer;

function codeOf(work: () => unknown): string | undefined {
  try {
    work();
  } catch (error) {
    return isEvenkeelError(error) ? error.code : String(error);
  }
  return undefined;
}

describe('flightRecorder', () => {
  it('keeps calls, the loads they were picked by and how they ended', async () => {
    const recorder = flightRecorder();
    const fixture = await recorded(recorder, 20);
    const { calls, picks, same } = contentsOf(only(recorder));
    expect([calls.length, picks, same]).toEqual([20, 20, 20]);
    const explained = explainCall(only(recorder), 20);
    expect(explained).toMatchObject({
      listed: 3,
      ready: 3,
      again: 'same',
      end: { outcome: { kind: 'success' }, afterMs: 3 },
    });
    expect(explained?.looked.map(({ cost }) => cost)).toEqual([1, 1, 1]);
    await fixture.balancer.close();
  });

  it('replays the same picks from the first call on, though the first endpoint starts the recording', async () => {
    for (let seed = 1; seed <= 10; seed++) {
      const recorder = flightRecorder();
      const rng = seededRng(seed);
      const fixture = new BalancerFixture({ recorder, picker: p2c(), load: relativeLatency(), rng });
      await fixture.publish(...pods(3));
      const running: { endMs: number; end: () => void }[] = [];
      for (let ms = 0; ms < 400; ms++) {
        if (running.length < 4) {
          const lease = fixture.balancer.pick();
          const endMs = ms + (lease?.endpoint.name === 'orders-3' ? 60 : 5);
          running.push({ endMs, end: () => lease?.end(outcomes.success) });
        }
        fixture.clock.advance(1);
        for (const call of running.filter(({ endMs }) => endMs <= ms)) {
          running.splice(running.indexOf(call), 1);
          call.end();
        }
      }
      const { picks, same } = contentsOf(only(recorder));
      expect(same).toBe(picks);
      await fixture.balancer.close({ signal: AbortSignal.abort() });
    }
  });

  it('records which endpoints were out, and which stage decided that', async () => {
    const recorder = flightRecorder();
    const fixture = await recorded(recorder, 0);
    await fixture.publish(...pods(2), {
      ...pods(1, 3)[0],
      address: '10.1.0.3',
      port: 80,
      conditions: { ready: false },
    });
    fixture.balancer.pick()?.end(outcomes.success);
    const out = explainCall(only(recorder), 1)?.leftOut;
    expect(out).toMatchObject([{ endpoint: { name: 'orders-3' }, stage: 0 }]);
    await fixture.balancer.close();
  });

  it('records that picker and load are functions of the application, and guesses nothing', async () => {
    const recorder = flightRecorder();
    const first: ReturnType<typeof p2c> = ({ targets }) => ({ pick: () => targets[0] });
    const load = () => ({ decays: false, start() {}, end() {}, value: () => 7 });
    const fixture = await recorded(recorder, 3, { picker: first, load: load as never });
    const explained = explainCall(only(recorder), 2);
    expect(explained).toMatchObject({ again: 'unknown', knowsLoad: false });
    expect(explained?.cheapest.map(({ cost }) => cost)).toEqual([undefined, undefined, undefined]);
    await fixture.balancer.close();
  });

  it('holds the last calls when the ring buffer has wrapped, in bounded memory', async () => {
    const recorder = flightRecorder({ bytes: 2 ** 20, seconds: 3_600 });
    const fixture = await recorded(recorder, 100_000, { load: relativeLatency() as never });
    expect(recorder.dump().length).toBeLessThanOrEqual(2 ** 20 + 4_096);
    const { calls, picks, same } = contentsOf(only(recorder));
    expect(calls.at(-1)?.call).toBe(100_000);
    expect(calls.length).toBeGreaterThan(15_000);
    expect(same).toBe(picks);
    await fixture.balancer.close();
  });

  it('holds no calls from long ago', async () => {
    const recorder = flightRecorder({ seconds: 10 });
    const fixture = await recorded(recorder, 20_000);
    const { calls } = contentsOf(only(recorder));
    expect(calls.length).toBeLessThan(20_000);
    expect(fixture.clock.now() - (calls[0]?.atMs ?? 0)).toBeGreaterThanOrEqual(10_000);
    await fixture.balancer.close();
  });

  it('serves several balancers, and keeps those that are closed', async () => {
    const recorder = flightRecorder();
    const first = await recorded(recorder, 5);
    const second = await recorded(recorder, 7);
    await first.balancer.close();
    const { balancers } = readDump(recorder.dump());
    expect(balancers.map((each) => [contentsOf(each).calls.length, each.closed])).toEqual([
      [5, true],
      [7, false],
    ]);
    await second.balancer.close();
  });

  it('works with a clock that goes back', async () => {
    const recorder = flightRecorder();
    let backMs = 0;
    const fixture = new BalancerFixture({ recorder, picker: p2c(), load: relativeLatency() });
    const { clock } = fixture;
    const now = clock.now.bind(clock);
    clock.now = () => now() - backMs;
    await fixture.publish(...pods(9));
    for (let call = 0; call < 5_000; call++) {
      const lease = fixture.balancer.pick();
      clock.advance(1);
      if (call % 1_000 === 500) backMs += 30_000;
      lease?.end(outcomes.success);
    }
    const { picks, same } = contentsOf(only(recorder));
    expect([picks, same]).toEqual([5_000, 5_000]);
    await fixture.balancer.close();
  });

  it('works with 1,000 endpoints that change all the time', async () => {
    const recorder = flightRecorder({ bytes: 2 ** 23 });
    const fixture = new BalancerFixture({ recorder, picker: p2c(), load: relativeLatency() });
    for (let turn = 0; turn < 30; turn++) {
      await fixture.publish(
        ...Array.from({ length: 1_000 }, (_, index) => `10.2.${(index + 7 * turn) >> 8}.${(index + 7 * turn) & 255}`),
      );
      fixture.clock.advance(50);
      await settle();
      for (let call = 0; call < 20; call++) fixture.balancer.pick()?.end(outcomes.success);
    }
    const { calls, picks, same } = contentsOf(only(recorder));
    expect(calls.at(-1)?.call).toBe(600);
    expect(same).toBe(picks);
    await fixture.balancer.close({ signal: AbortSignal.abort() });
  });

  it.each([0, 20_000])('keeps calls that end after their endpoint was closed, %d ms later', async (laterMs) => {
    const recorder = flightRecorder();
    const rng = seededRng(1);
    const fixture = new BalancerFixture({ recorder, picker: preferenceOrder(), load: relativeLatency(), rng });
    const call = async (count: number): Promise<void> => {
      for (let made = 0; made < count; made++) {
        const lease = fixture.balancer.pick();
        await fixture.clock.advanceAsync(10);
        lease?.end(outcomes.success);
      }
    };
    await fixture.publish(...pods(6));
    const leases = Array.from({ length: 6 }, () => fixture.balancer.pick());
    await fixture.publish(...pods(5, 7));
    // Calls are cut, and end once the application has heard of it.
    await fixture.clock.advanceAsync(30_000);
    await call(20);
    // Others take the numbers of those that are gone, unless a call still runs there.
    await fixture.publish(...pods(9, 7));
    await fixture.clock.advanceAsync(laterMs);
    await call(20);
    for (const lease of leases.slice(1)) lease?.end(outcomes.reset);
    const closed = leases.flatMap((lease) => lease?.subchannel ?? []);
    await fixture.publish(...pods(12, 7));
    fixture.balancer.pick({ avoid: new Set(closed) })?.end(outcomes.success);
    leases[0]?.end(outcomes.reset);
    await call(20);
    const { calls, picks, same } = contentsOf(only(recorder));
    expect(same).toBe(picks);
    const ofClosed = calls.filter(({ end }) => end?.outcome.cause === 'reset').map(({ endpoint }) => endpoint.name);
    expect(ofClosed.sort()).toEqual(closed.map(({ endpoint }) => endpoint.name).sort());
    await fixture.balancer.close({ signal: AbortSignal.abort() });
  });

  it('calls onPanic once, with a dump', async () => {
    const dumps: Uint8Array[] = [];
    const recorder = flightRecorder({ onPanic: (dump) => dumps.push(dump) });
    const fixture = await recorded(recorder, 3);
    for (let call = 0; call < 60; call++) {
      fixture.balancer.pick()?.end(outcomes.status);
      await settle();
    }
    expect(dumps).toHaveLength(1);
    expect(contentsOf(readDump(dumps[0] as Uint8Array).balancers[0] as DumpedBalancer).notes.at(-1)?.note.what).toBe(
      'panic',
    );
    await fixture.balancer.close();
  });

  it('writes no name, address or key with pseudonyms, and otherwise the same calls', async () => {
    const recorder = flightRecorder();
    const fixture = await recorded(recorder, 50, { picker: hash(), key: 'customer-4711' });
    const [plain, other] = [recorder.dump(), recorder.dump({ pseudonyms: true })];
    const text = new TextDecoder('latin1').decode(other);
    for (const secret of ['10.1.0', 'orders', 'zurich', 'fake', '4711']) expect(text).not.toContain(secret);
    const calls = (dump: Uint8Array) =>
      contentsOf(readDump(dump).balancers[0] as DumpedBalancer).calls.map(({ call, atMs, end }) => [call, atMs, end]);
    expect(calls(other)).toEqual(calls(plain));
    const bytes = Buffer.alloc(4);
    bytes.writeInt32LE(hash32('customer-4711'));
    expect(Buffer.from(plain).includes(bytes)).toBe(true);
    expect(Buffer.from(other).includes(bytes)).toBe(false);
    await fixture.balancer.close();
  });

  it('allocates nothing per call beside the lease', async () => {
    const recorder = flightRecorder();
    const fixture = await recorded(recorder, 100);
    const { balancer } = fixture;
    // Without a recorder it is 88 (`picking.test.ts`). Numbers that are passed on may be put on the heap: not an object.
    expect(bytesPerCall(() => balancer.pick()?.end(outcomes.success), 128)).toBeLessThanOrEqual(128);
    await fixture.balancer.close();
  });

  it('refuses invalid options', () => {
    expect(codeOf(() => flightRecorder({ seconds: 0 }))).toBe('EVENKEEL_OPTION');
    expect(codeOf(() => flightRecorder({ bytes: 10 }))).toBe('EVENKEEL_OPTION');
    expect(codeOf(() => flightRecorder({ second: 1 } as never))).toBe('EVENKEEL_OPTION');
    expect(codeOf(() => new BalancerFixture({ recorder: flightRecorder as never }))).toBe('EVENKEEL_OPTION');
  });
});

describe('readDump', () => {
  it('refuses a file that is not a recording, and one that is cut off or damaged', async () => {
    const recorder = flightRecorder();
    const fixture = await recorded(recorder, 50);
    const dump = recorder.dump();
    expect(codeOf(() => readDump(new Uint8Array(0)))).toBe('EVENKEEL_RECORDING');
    expect(codeOf(() => readDump(new TextEncoder().encode('{"no":"recording of anything"}')))).toBe(
      'EVENKEEL_RECORDING',
    );
    for (let length = 0; length < dump.length; length += 97) {
      expect(codeOf(() => readDump(dump.subarray(0, length)))).toBe('EVENKEEL_RECORDING');
    }
    const rng = seededRng(3);
    for (let turn = 0; turn < 300; turn++) {
      const damaged = Uint8Array.from(dump);
      const at = Math.floor(rng.next() * damaged.length);
      damaged[at] = (damaged[at] as number) ^ (1 << Math.floor(rng.next() * 8));
      // The last bytes of a text are filled up, and mean nothing.
      const code = codeOf(() => readDump(damaged));
      expect(code === 'EVENKEEL_RECORDING' || code === undefined).toBe(true);
      if (code === undefined)
        expect(contentsOf(readDump(damaged).balancers[0] as DumpedBalancer).calls).toHaveLength(50);
    }
    await fixture.balancer.close();
  });
});

describe('keyOfHash', () => {
  it('finds a text for every hash', () => {
    const rng = seededRng(9);
    for (let turn = 0; turn < 2_000; turn++) {
      const hash = (rng.next() * 2 ** 32) | 0;
      expect(hash32(keyOfHash(hash))).toBe(hash);
    }
  });
});
