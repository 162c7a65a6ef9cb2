import { beforeEach, describe, expect, it } from 'vitest';
import { ResolveError } from '../../../src/errors.js';
import { firstAvailable, union } from '../../../src/resolver/combine.js';
import type { Resolution, Resolver } from '../../../src/resolver/resolver.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../src/testing/fake-resolver.js';
import { RecordingListener } from '../../support/fixtures/recording-listener.js';

let clock: FakeClock;
let listener: RecordingListener;
let a: FakeResolver;
let b: FakeResolver;
let resolution: Resolution;

function watch(resolver: Resolver): void {
  resolution = resolver.watch(listener, { clock, rng: { next: () => 0 }, observer: {} });
}
const down = (message = 'down'): ResolveError => new ResolveError(message);

beforeEach(() => {
  clock = new FakeClock(0);
  listener = new RecordingListener();
  a = new FakeResolver();
  b = new FakeResolver();
});

describe('firstAvailable', () => {
  beforeEach(() => watch(firstAvailable([a, b])));

  it('waits for the first while it publishes nothing, no longer than its patience', () => {
    b.update('10.0.0.2');
    clock.advance(1_999);
    expect(listener.events).toEqual([]);
    clock.advance(1);
    expect(listener.events).toEqual(['10.0.0.2:80']);
    a.update('10.0.0.1');
    expect(listener.events).toEqual(['10.0.0.2:80', '10.0.0.1:80']);
  });

  it('uses the next at once when the first fails or has no endpoints, and comes back', () => {
    b.update('10.0.0.2');
    a.fail(down());
    a.update('10.0.0.1');
    a.update();
    a.update('10.0.0.1');
    expect(listener.events).toEqual(['10.0.0.2:80', '10.0.0.1:80', '10.0.0.2:80', '10.0.0.1:80']);
  });

  it('reports a failure again when it turns out to be permanent', () => {
    for (const permanent of [false, true]) {
      a.fail(new ResolveError('refused', { permanent }));
      b.fail(new ResolveError('down', { permanent }));
    }
    expect(listener.errors.map(({ permanent }) => permanent)).toEqual([false, true]);
  });

  it('keeps the set of the first through its failures, and reports that it is stale', () => {
    a.update('10.0.0.1');
    b.update('10.0.0.2');
    a.fail(down());
    a.fail(down());
    a.fresh();
    expect(listener.events).toEqual(['10.0.0.1:80', 'fail down', 'fresh']);
  });

  it('does not report failures of a resolver that is not in use', () => {
    a.update('10.0.0.1');
    b.fail(down());
    expect(listener.events).toEqual(['10.0.0.1:80']);
  });

  it('is empty when one is and the other has nothing', () => {
    a.update();
    b.fail(down());
    expect(listener.events).toEqual(['∅']);
  });

  it('fails when none has ever answered, with all reasons', () => {
    a.fail(down('one'));
    clock.advance(2_000);
    b.fail(down('two'));
    expect(listener.events).toEqual(['fail one', 'fail one; two']);
    b.update('10.0.0.2');
    expect(listener.events.at(-1)).toBe('10.0.0.2:80');
  });

  it('reports a failure once and never an unchanged set', () => {
    a.update('10.0.0.1', '10.0.0.2');
    a.update('10.0.0.2', '10.0.0.1');
    b.update('10.0.0.3');
    expect(listener.events).toEqual(['10.0.0.1:80 10.0.0.2:80']);
  });
});

describe('union', () => {
  beforeEach(() => watch(union([a, b])));

  it('waits until all have published, then publishes all endpoints, each once', () => {
    a.update('10.0.0.1');
    expect(listener.events).toEqual([]);
    b.update('10.0.0.2', '10.0.0.1');
    expect(listener.events).toEqual(['10.0.0.1:80 10.0.0.2:80']);
  });

  it('continues without a silent one after its patience, and reports what is missing', () => {
    a.update('10.0.0.1');
    clock.advance(2_000);
    b.fail(down());
    expect(listener.events).toEqual(['10.0.0.1:80', 'fail down']);
  });

  it('keeps the last endpoints of one that fails', () => {
    a.update('10.0.0.1');
    b.update('10.0.0.2');
    b.fail(down());
    a.update();
    expect(listener.events).toEqual(['10.0.0.1:80 10.0.0.2:80', 'fail down', '10.0.0.2:80', 'fail down']);
    b.fresh();
    expect(listener.events.at(-1)).toBe('fresh');
  });

  it('is not empty while a part is unknown', () => {
    a.update();
    b.fail(down());
    expect(listener.events).toEqual(['fail down']);
    b.update();
    expect(listener.events).toEqual(['fail down', '∅']);
  });
});

it.each([
  ['union', union, 'no blue pod; no green pod'],
  ['firstAvailable', firstAvailable, 'no blue pod'],
])('%s gives the reason why it is empty', (_name, combine, expected) => {
  const none = (reason: string): Resolver => ({
    name: reason,
    watch: ({ update }) => {
      clock.defer(() => update([], reason));
      return { refresh() {}, close() {} };
    },
  });
  watch(combine([none('no blue pod'), none('no green pod')]));
  clock.advance(2_000);
  expect([listener.keys, listener.reason]).toEqual(['', expected]);
});

it('hints and close go to all; nothing is published after close', () => {
  watch(union([a, b]));
  resolution.refresh();
  expect([a.refreshes, b.refreshes]).toEqual([1, 1]);
  resolution.close();
  resolution.close();
  expect([a.watchers, b.watchers, clock.timers]).toEqual([0, 0, 0]);
  clock.advance(10_000);
  expect(listener.events).toEqual([]);
});

it('a failure is permanent only if all fail permanently', () => {
  watch(firstAvailable([a, b]));
  const forbidden = new ResolveError('no', { code: 'EVENKEEL_FORBIDDEN', permanent: true });
  a.fail(forbidden);
  clock.advance(2_000);
  expect(listener.errors.at(-1)?.permanent).toBe(false);
  b.fail(forbidden);
  expect(listener.errors.at(-1)).toMatchObject({ permanent: true, code: 'EVENKEEL_FORBIDDEN' });
});

it('no resolver keeps running if one does not start', () => {
  const broken: Resolver = {
    name: 'broken',
    watch() {
      throw new Error('no');
    },
  };
  expect(() => watch(union([a, broken]))).toThrow('no');
  expect([a.watchers, clock.timers]).toEqual([0, 0]);
});

it('refuses a value that is not a list of resolvers', () => {
  expect(() => union([])).toThrow('resolvers must be a list of at least one resolver');
  expect(() => firstAvailable([{} as Resolver])).toThrow('resolvers[].watch must be a function');
  expect(() => union([a], { patience: 1 } as object)).toThrow('options has no option "patience"');
});
