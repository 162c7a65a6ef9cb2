import { beforeEach, describe, expect, it } from 'vitest';
import { Attributes, attributeKey } from '../../../src/endpoint/attributes.js';
import { createEndpoint } from '../../../src/endpoint/endpoint.js';
import { isResolveError, ResolveError } from '../../../src/errors.js';
import { type PollAnswer, type PollingOptions, polling } from '../../../src/resolver/polling.js';
import type { Resolution } from '../../../src/resolver/resolver.js';
import { FakeClock, settle } from '../../../src/testing/fake-clock.js';
import { RecordingListener } from '../../support/fixtures/recording-listener.js';

const set = (...addresses: string[]): PollAnswer => ({
  endpoints: addresses.map((address) => createEndpoint({ address, port: 80 })),
});

let clock: FakeClock;
let listener: RecordingListener;
let looks: { answer(answer: PollAnswer): void; fail(error: unknown): void; signal: AbortSignal; atMs: number }[];
/** What every draw gives; 0 is no jitter. */
let chance: number;
let resolution: Resolution;

function watch(options: Partial<PollingOptions> = {}): void {
  const resolver = polling({
    name: 'registry',
    open: () => (signal) =>
      new Promise((answer, fail) => {
        looks.push({ answer, fail, signal, atMs: clock.now() });
      }),
    ...options,
  });
  resolution = resolver.watch(listener, { clock, rng: { next: () => chance }, observer: {} });
}

async function answer(given: PollAnswer): Promise<void> {
  looks.at(-1)?.answer(given);
  await settle();
}

async function fail(message: string): Promise<void> {
  looks.at(-1)?.fail(new ResolveError(message));
  await settle();
}

beforeEach(() => {
  clock = new FakeClock(0);
  listener = new RecordingListener();
  looks = [];
  chance = 0;
});

describe('the time of the next lookup', () => {
  it('comes only after watch has returned', async () => {
    watch();
    expect(looks).toHaveLength(0);
    await settle();
    expect(looks).toHaveLength(1);
  });

  it('follows a shortest interval that is longer than the longest would be', async () => {
    watch({ minIntervalMs: 60_000 });
    await settle();
    await answer(set('10.0.0.1'));
    await clock.advanceAsync(59_999);
    expect(looks).toHaveLength(1);
    await clock.advanceAsync(1);
    expect(looks).toHaveLength(2);
  });

  it('is after the interval, or when the answer expires, within 1 s and 30 s (D4)', async () => {
    watch();
    await settle();
    for (const validForMs of [undefined, 7_000, 0, 3_600_000]) {
      await answer({ ...set('10.0.0.1'), validForMs });
      await clock.advanceAsync(clock.nextInMs ?? 0);
    }
    expect(looks.map((look) => look.atMs)).toEqual([0, 5_000, 12_000, 13_000, 43_000]);
  });

  it('ignores a TTL that is not a number', async () => {
    watch();
    await settle();
    await answer({ ...set('10.0.0.1'), validForMs: Number.NaN });
    expect(clock.nextInMs).toBe(5_000);
  });

  it('is up to 20 % sooner than the TTL, never later (D4)', async () => {
    chance = 0.999_999;
    watch();
    await settle();
    await answer({ ...set('10.0.0.1'), validForMs: 10_000 });
    expect(clock.nextInMs).toBeCloseTo(8_000, 1);
  });

  it('waits for the running lookup, whatever hints come', async () => {
    watch();
    await settle();
    resolution.refresh();
    await clock.advanceAsync(4_000);
    resolution.refresh();
    await clock.advanceAsync(100);
    expect(looks).toHaveLength(1);
  });

  it('is now on a hint, but at most once a second (D4)', async () => {
    watch();
    await settle();
    await answer(set('10.0.0.1'));
    await clock.advanceAsync(300);
    for (let hint = 0; hint < 5; hint++) resolution.refresh();
    await clock.advanceAsync(699);
    expect(looks).toHaveLength(1);
    await clock.advanceAsync(1);
    expect(looks).toHaveLength(2);
    await answer(set('10.0.0.1'));
    await clock.advanceAsync(2_000);
    resolution.refresh();
    await clock.advanceAsync(0);
    expect(looks).toHaveLength(3);
  });

  it('is never delayed by a hint', async () => {
    watch();
    await settle();
    await answer({ ...set('10.0.0.1'), validForMs: 1_000 });
    await clock.advanceAsync(900);
    resolution.refresh();
    await clock.advanceAsync(100);
    expect(looks).toHaveLength(2);
  });
});

describe('publication', () => {
  it('is published once if every answer attaches equal attributes anew', async () => {
    const version = attributeKey<string>('version');
    const tags = attributeKey<readonly string[]>('tags');
    const answer = (tag: string): PollAnswer => {
      const attributes = Attributes.empty.with(version, '7').with(tags, [tag]);
      return { endpoints: [createEndpoint({ address: '10.0.0.1', port: 80, attributes })] };
    };
    watch();
    for (const tag of ['a', 'a', 'a', 'b', 'b']) {
      await settle();
      looks.at(-1)?.answer(answer(tag));
      await settle();
      clock.advance(5_000);
    }
    expect(listener.events).toHaveLength(2);
    expect(listener.endpoints?.[0]?.attributes.get(tags)).toEqual(['b']);
  });

  it('has what changed, sorted and each once; the same set in another order is not published (D3)', async () => {
    watch();
    await settle();
    for (const addresses of [
      ['10.0.0.2', '10.0.0.1'],
      ['10.0.0.1', '10.0.0.2', '10.0.0.1'],
      ['10.0.0.3'],
      ['10.0.0.3'],
    ]) {
      await answer(set(...addresses));
      await clock.advanceAsync(5_000);
    }
    expect(listener.events).toEqual(['10.0.0.1:80 10.0.0.2:80', '10.0.0.3:80']);
  });

  it('keeps the last set through failures, reports each kind of failure once, and when it is over (D7)', async () => {
    watch();
    await settle();
    await answer(set('10.0.0.1'));
    for (const message of ['down', 'down', 'refused', 'down']) {
      await clock.advanceAsync(clock.nextInMs ?? 0);
      await fail(message);
    }
    await clock.advanceAsync(clock.nextInMs ?? 0);
    await answer(set('10.0.0.1'));
    expect(listener.events).toEqual(['10.0.0.1:80', 'fail down', 'fail refused', 'fail down', 'fresh']);
  });

  it('of a changed set after a failure is an update without fresh', async () => {
    watch();
    await settle();
    await fail('down');
    await clock.advanceAsync(1_000);
    await answer(set('10.0.0.1'));
    expect(listener.events).toEqual(['fail down', '10.0.0.1:80']);
  });

  it('treats an invalid answer as a failed lookup', async () => {
    watch();
    await settle();
    await answer(undefined as never);
    expect(listener.events).toEqual(['fail registry: the look gave no list of endpoints']);
    expect(clock.timers).toBe(1);
  });

  it('turns whatever a lookup throws into a ResolveError, also synchronously', async () => {
    watch({
      open: () => () => {
        throw new TypeError('oops');
      },
    });
    await settle();
    expect(listener.events).toEqual(['fail registry: oops']);
    expect(isResolveError(listener.errors[0])).toBe(true);
  });
});

describe('failures', () => {
  it('back off from 1 s, doubling to 30 s, plus jitter; an answer ends it (D7)', async () => {
    watch();
    await settle();
    const pauses: number[] = [];
    for (let round = 0; round < 7; round++) {
      await fail('down');
      pauses.push(clock.nextInMs ?? 0);
      await clock.advanceAsync(clock.nextInMs ?? 0);
    }
    expect(pauses).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    await answer(set('10.0.0.1'));
    await clock.advanceAsync(5_000);
    chance = 0.5;
    await fail('down');
    expect(clock.nextInMs).toBe(1_100);
  });

  it('let a hint shorten the pause to a second after the last lookup', async () => {
    watch();
    await settle();
    for (let round = 0; round < 5; round++) {
      await fail('down');
      await clock.advanceAsync(clock.nextInMs ?? 0);
    }
    await fail('down');
    resolution.refresh();
    expect(clock.nextInMs).toBe(1_000);
  });

  it('include a lookup that hangs: it ends after its time, and its late answer is ignored (D8)', async () => {
    watch({ timeoutMs: 3_000 });
    await settle();
    await clock.advanceAsync(3_000);
    expect(listener.events).toEqual(['fail registry: no answer within 3000 ms']);
    expect(looks[0]?.signal.aborted).toBe(true);
    looks[0]?.answer(set('10.0.0.9'));
    await settle();
    await clock.advanceAsync(1_000);
    expect(looks).toHaveLength(2);
    await answer(set('10.0.0.1'));
    expect(listener.keys).toBe('10.0.0.1:80');
  });
});

describe('empty answers (D7)', () => {
  it('are looked up again at once when a call finds no endpoint, whatever the TTL of the last answer', async () => {
    watch();
    await settle();
    await answer({ ...set(), validForMs: 30_000 });
    await clock.advanceAsync(3_000);
    for (let call = 0; call < 1_000; call++) resolution.refresh();
    await clock.advanceAsync(0);
    expect(looks).toHaveLength(2);
    await answer(set('10.0.0.1'));
    expect(listener.events).toEqual(['∅', '10.0.0.1:80']);
  });

  it('are looked up again at most once a second, with a jitter that many calls do not wear down', async () => {
    watch();
    await settle();
    chance = 0.5;
    await answer({ ...set(), validForMs: 30_000 });
    chance = 0;
    for (let ms = 0; ms < 1_100; ms += 10) {
      expect(looks).toHaveLength(1);
      resolution.refresh();
      await clock.advanceAsync(10);
    }
    expect(looks).toHaveLength(2);
  });

  it('count at once where no confirmation is required', async () => {
    watch();
    await settle();
    await answer(set('10.0.0.1'));
    await clock.advanceAsync(5_000);
    await answer(set());
    expect(listener.events).toEqual(['10.0.0.1:80', '∅']);
  });

  it('need a second one after the required time; the lookup for it comes just then', async () => {
    watch({ emptyAgreementMs: 5_000 });
    await settle();
    await answer(set('10.0.0.1'));
    await clock.advanceAsync(5_000);
    await answer(set());
    expect(clock.nextInMs).toBe(5_000);
    resolution.refresh();
    await clock.advanceAsync(1_000);
    await answer(set());
    expect(listener.events).toEqual(['10.0.0.1:80']);
    expect(clock.nextInMs).toBe(4_000);
    await clock.advanceAsync(4_000);
    await answer(set());
    expect(listener.events).toEqual(['10.0.0.1:80', '∅']);
  });

  it('start counting again after a set in between, and not after a failure', async () => {
    watch({ emptyAgreementMs: 5_000 });
    await settle();
    await answer(set());
    await clock.advanceAsync(5_000);
    await answer(set('10.0.0.1'));
    await clock.advanceAsync(5_000);
    await answer(set());
    await clock.advanceAsync(5_000);
    await fail('down');
    await clock.advanceAsync(1_000);
    expect(listener.events.slice(1)).toEqual(['10.0.0.1:80', 'fail down']);
    await answer(set());
    expect(listener.events.slice(1)).toEqual(['10.0.0.1:80', 'fail down', '∅']);
  });

  it('are reported the first time, as a reason to wait, and not again', async () => {
    watch({ emptyAgreementMs: 5_000 });
    await settle();
    await answer(set());
    const reason = 'fail registry: it has no endpoint so far';
    expect(listener.events).toEqual([reason]);
    await clock.advanceAsync(5_000);
    await answer(set('10.0.0.1'));
    await clock.advanceAsync(5_000);
    await answer(set());
    expect(listener.events).toEqual([reason, '10.0.0.1:80']);
  });
});

describe('close', () => {
  it('aborts the lookup, leaves no timer and publishes nothing more', async () => {
    watch();
    await settle();
    resolution.close();
    resolution.close();
    expect(looks[0]?.signal.aborted).toBe(true);
    await answer(set('10.0.0.1'));
    resolution.refresh();
    expect(clock.timers).toBe(0);
    expect(listener.events).toEqual([]);
  });

  it('works before the first lookup, and between lookups', async () => {
    watch();
    resolution.close();
    await settle();
    expect(looks).toHaveLength(0);
    watch();
    await settle();
    await answer(set('10.0.0.1'));
    resolution.close();
    expect(clock.timers).toBe(0);
  });
});

it('refuses invalid options', () => {
  expect(() => watch({ intervalMs: -1 })).toThrow('intervalMs must be a number from 10');
  expect(() => watch({ minIntervalMs: 5_000, maxIntervalMs: 1_000 })).toThrow('maxIntervalMs must be');
  expect(() => watch({ jitter: 1 } as object)).toThrow('polling has no option "jitter"');
  expect(() => watch({ name: '' })).toThrow('name must be');
});
