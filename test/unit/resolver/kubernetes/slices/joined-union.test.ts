import { describe, expect, it } from 'vitest';
import type { Endpoint } from '../../../../../src/endpoint/endpoint.js';
import type { Unchecked } from '../../../../../src/resolver/kubernetes/api/unchecked.js';
import { type EndpointSlice, parseSlice } from '../../../../../src/resolver/kubernetes/slices/endpoint-slice.js';
import { PublishedSet, type SliceChoice } from '../../../../../src/resolver/kubernetes/slices/published-set.js';
import { drawIndex } from '../../../../../src/runtime/rng.js';
import { FakeClock } from '../../../../../src/testing/fake-clock.js';
import { seededRng } from '../../../../../src/testing/seeded-rng.js';
import { SettledSet } from './settled-set.js';

/** States of a pod: ready, not ready, terminating but serving, terminating and not serving. */
const states: Readonly<Record<string, object>> = {
  R: { ready: true, serving: true, terminating: false },
  N: { ready: false, serving: false, terminating: false },
  T: { ready: false, serving: true, terminating: true },
  X: { ready: false, serving: false, terminating: true },
};

/** Slices of pods, such as `1R 2T`: pod 1 is ready at 10.0.0.1 or fd00::1. `1-9R` is pod 1 at 10.0.0.9; `?9R` has no uid. */
function slice(name: string, text: string, version: string): EndpointSlice {
  const isV6 = name.startsWith('v6');
  const endpoints = text
    .split(' ')
    .filter(Boolean)
    .map((item) => {
      const [uid, host = uid] = item.slice(0, -1).replace('?', '?-').split('-') as [string, string?];
      return {
        addresses: [isV6 ? `fd00::${host}` : `10.0.0.${host}`],
        conditions: states[item.slice(-1)],
        ...(uid !== '?' && { targetRef: { uid: `u${uid}`, name: `pod-${uid}` } }),
      };
    });
  const metadata = { name, resourceVersion: version, labels: { 'kubernetes.io/service-name': 'orders' } };
  const addressType = isV6 ? 'IPv6' : 'IPv4';
  return parseSlice({ metadata, addressType, endpoints } as Unchecked, 'orders') as EndpointSlice;
}

const both: SliceChoice = {
  families: ['IPv4', 'IPv6'],
  ports: () => [{ port: 80, appProtocol: undefined }],
  accepts: () => true,
};

/** A union of both families and what is published of it. Slices whose name begins with `v6` are IPv6. */
class World {
  readonly clock = new FakeClock();
  readonly slices = new Map<string, EndpointSlice>();
  readonly set: PublishedSet;
  published: readonly Endpoint[] = [];
  /** How often something was published. */
  times = 0;
  #version = 0;

  constructor(slices: Readonly<Record<string, string>>) {
    this.set = new PublishedSet(this.clock, (endpoints) => {
      this.published = endpoints;
      this.times++;
    });
    this.set.choose(both);
    for (const [name, text] of Object.entries(slices)) this.#put(name, text);
    this.set.settle();
    this.clock.advance(1_000);
  }

  /** Writes one slice and waits until what changed must be published, except for what may return. */
  put(name: string, text: string | undefined, thenMs = 50, version?: string): void {
    this.#put(name, text, version);
    this.set.settle();
    this.clock.advance(thenMs);
  }

  #put(name: string, text: string | undefined, version = String(++this.#version)): void {
    const written = text === undefined ? undefined : slice(name, text, version);
    if (written === undefined) this.slices.delete(name);
    else this.slices.set(name, written);
    this.set.put(name, written);
  }

  /** What is published, as `10.0.0.1+fd00::1 R`. */
  get shown(): string[] {
    return this.published.map((endpoint) => {
      const { address, otherAddress, conditions } = endpoint;
      const state = Object.keys(states).find((name) => JSON.stringify(states[name]) === JSON.stringify(conditions));
      return `${address}${otherAddress === undefined ? '' : `+${otherAddress}`} ${state}`;
    });
  }

  get keys(): string[] {
    return this.published.map(({ key }) => key);
  }
}

describe('the two addresses of a pod', () => {
  it('are one endpoint, IPv4 first', () => {
    expect(new World({ v4: '1R 2R', v6: '1R 2R' }).shown).toEqual(['10.0.0.1+fd00::1 R', '10.0.0.2+fd00::2 R']);
  });

  it.each([
    ['IPv4', 'v4', 'v6'],
    ['IPv6', 'v6', 'v4'],
  ])(
    'are one endpoint from the first slice on, that for %s: it keeps its key, and is never listed twice',
    (_family, first, second) => {
      const world = new World({ [first]: '1R' });
      const before = world.keys;
      world.put(second, '1R');
      expect(world.shown).toEqual(['10.0.0.1+fd00::1 R']);
      expect(world.keys).toEqual(before);
      expect(world.times).toBe(2);
    },
  );

  it('remain one endpoint when one slice is deleted and returns, with the old address for 250 ms', () => {
    const world = new World({ v4: '1R', v6: '1R' });
    const before = world.keys;
    for (const name of ['v4', 'v6']) {
      world.put(name, undefined, 300);
      expect(world.keys).toEqual(before);
      expect(world.shown).toEqual([name === 'v4' ? 'fd00::1 R' : '10.0.0.1 R']);
      world.put(name, '1R', 300);
      expect(world.shown).toEqual(['10.0.0.1+fd00::1 R']);
      expect(world.keys).toEqual(before);
    }
  });

  it('S9: remain one unchanged endpoint while the pod moves to another slice of one family', () => {
    const world = new World({ v4: '1R 2R', v6: '1R 2R' });
    world.put('v4', '2R', 20);
    expect(world.shown).toEqual(['10.0.0.1+fd00::1 R', '10.0.0.2+fd00::2 R']);
    world.put('v4-b', '1R', 1_000);
    expect(world.shown.sort()).toEqual(['10.0.0.1+fd00::1 R', '10.0.0.2+fd00::2 R']);
    expect(new Set(world.keys)).toEqual(new Set(['10.0.0.1:80#u1', '10.0.0.2:80#u2']));
  });

  it('S9: do not remain if the pod stops being ready meanwhile', () => {
    const world = new World({ v4: '1R', v6: '1R' });
    world.put('v4', '', 20);
    world.put('v6', '1N', 50);
    expect(world.shown).toEqual(['fd00::1 N']);
  });

  it('belong to a new pod as soon as its slice says so', () => {
    const world = new World({ v4: '1R', v6: '1R' });
    world.put('v4', '1T 2-1R', 0);
    expect(world.shown).toEqual(['10.0.0.1 R', 'fd00::1 R']);
    expect(world.keys).toEqual(['10.0.0.1:80#u2', '10.0.0.1:80#u1']);
    world.put('v6', '1T 2-1R');
    expect(world.shown).toEqual(['10.0.0.1+fd00::1 R']);
    expect(world.keys).toEqual(['10.0.0.1:80#u2']);
  });

  it('are a new endpoint if neither is one the pod had', () => {
    const world = new World({ v4: '1R' });
    world.put('v4', '1-9R', 300);
    expect(world.keys).toEqual(['10.0.0.9:80#u1']);
  });
});

describe('a pod about which its two slices disagree', () => {
  it.each([
    ['was written last', 'v4', 'N', 'N'],
    ['was written last', 'v6', 'N', 'N'],
    ['says that it terminates', 'v4', 'T', 'T'],
    ['says that it terminates', 'v6', 'X', 'X'],
  ])('has the state in the slice that %s (%s %s)', (_which, name, state, expected) => {
    const world = new World({ v4: '1R', v6: '1R' });
    world.put(name, `1${state}`, 0);
    expect(world.shown).toEqual([`10.0.0.1+fd00::1 ${expected}`]);
  });

  it('is ready as soon as one slice says so', () => {
    const world = new World({ v4: '1N', v6: '1N' });
    world.put('v6', '1R', 0);
    expect(world.shown).toEqual(['10.0.0.1+fd00::1 R']);
  });

  it('terminates even if the other slice is written once more', () => {
    const world = new World({ v4: '1R', v6: '1R' });
    world.put('v4', '1T', 50);
    world.put('v6', '1R 2R', 50);
    expect(world.shown[0]).toBe('10.0.0.1+fd00::1 T');
  });

  it('is ready if either says so and nothing shows which is newer', () => {
    const world = new World({ v4: '1R', v6: '1R' });
    world.put('v4', '1N', 50, 'abc');
    expect(world.shown).toEqual(['10.0.0.1+fd00::1 R']);
  });

  it('follows the slice that is written later, even if that changes nothing for the pod', () => {
    const world = new World({ v4: '1R', v6: '1R' });
    world.put('v4', '1N', 50);
    world.put('v6', '1R 2R', 50);
    expect(world.shown[0]).toBe('10.0.0.1+fd00::1 R');
  });
});

describe('entries that cannot be joined', () => {
  it('without a uid are used with one family', () => {
    const world = new World({ v4: '?1R ?2R', v6: '?1R ?2R' });
    expect(world.shown).toEqual(['10.0.0.1 R', '10.0.0.2 R']);
    world.put('v4', '', 300);
    expect(world.shown).toEqual(['fd00::1 R', 'fd00::2 R']);
  });

  it.each([
    ['are absent', ''],
    ['are not ready', '?1N ?2N'],
    ['are terminating and not serving', '?1X'],
    ['are terminating, with ready ones in the other family', '?1T'],
  ])('U4: IPv4 entries without a uid that %s hide no usable IPv6 ones', (_what, text) => {
    expect(new World({ v4: text, v6: '?1R ?2R' }).shown).toEqual(['fd00::1 R', 'fd00::2 R']);
  });

  it('U4: without any usable entry they are used with IPv4', () => {
    expect(new World({ v4: '?1N', v6: '?1N' }).shown).toEqual(['10.0.0.1 N']);
    expect(new World({ v4: '?1T', v6: '?1T' }).shown).toEqual(['10.0.0.1 T']);
  });

  it('U4: IPv6 entries are used in the turn in which the last usable IPv4 one is lost, and IPv4 again when it is back', () => {
    const world = new World({ v4: '?1R', v6: '?1R' });
    world.put('v4', '?1N', 0);
    expect(world.shown).toEqual(['fd00::1 R']);
    world.put('v4', '?1R', 50);
    expect(world.shown).toEqual(['10.0.0.1 R']);
  });

  it('on a host with one family the pods with a uid are used with that, and entries without one as on any host', () => {
    const world = new World({});
    world.set.choose({ ...both, only: 'IPv4' });
    world.put('v4', '1R 2N', 300);
    world.put('v6', '1R 2R ?7R', 300);
    expect(world.shown).toEqual(['10.0.0.1 R', '10.0.0.2 N', 'fd00::7 R']);
  });

  it('with several addresses of one family are used with one family', () => {
    const world = new World({ v4: '1R 1-2R', v6: '1R' });
    expect(world.shown).toEqual(['10.0.0.1 R', '10.0.0.2 R']);
    world.put('v4', '1R', 300);
    expect(world.shown).toEqual(['10.0.0.1+fd00::1 R']);
  });

  it('are used with the family they have if it is not that one', () => {
    expect(new World({ v6: '1R 1-2R' }).shown).toEqual(['fd00::1 R', 'fd00::2 R']);
  });
});

it('every pod is listed once with what its slices say now, whatever came before', () => {
  const rng = seededRng(7);
  const draw = (texts: readonly string[]): string => texts[drawIndex(rng, texts.length)] as string;
  const contents = ['', '1R', '1N 2R', '1R 2R', '2T', '1-3R 2R', '1R 2-1R', '?1R 2R', '1R 1-2R', '3R', '1T 3-1R'];
  const world = new World({});
  for (let step = 0; step < 2_000; step++) {
    world.put(draw(['v4', 'v4-b', 'v6', 'v6-b']), draw(contents), drawIndex(rng, 300));
    expect(new Set(world.keys).size, `step ${step}`).toBe(world.keys.length);
    // What vanished stays for a moment, so it is compared once that is over.
    if (step % 10 !== 9) continue;
    world.clock.advance(1_000);
    const fresh = new SettledSet(both);
    for (const each of world.slices.values()) fresh.set(each.name, each);
    fresh.settle(new Set());
    expect(listed(world.published), `step ${step}`).toEqual(
      listed(fresh.addresses.map((address) => fresh.at(address) as Endpoint)),
    );
  }
});

/** What a union lists, without keys, which depend on what came before. */
function listed(endpoints: readonly Endpoint[]): string[] {
  return endpoints
    .map(({ address, otherAddress, uid, conditions }) => JSON.stringify([address, otherAddress, uid, conditions]))
    .sort();
}

it('T2: a pod of two addresses that both slices drop and list again within 250 ms keeps its key', () => {
  const world = new World({ v4: '1R 2R', v6: '1R 2R' });
  const before = world.keys;
  world.put('v4', '2R', 0);
  world.put('v6', '2R', 20);
  world.put('v6', '1R 2R', 20);
  world.put('v4', '1R 2R', 1_000);
  expect([...world.keys].sort()).toEqual([...before].sort());
});
