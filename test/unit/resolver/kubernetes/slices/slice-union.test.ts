import { describe, expect, it } from 'vitest';
import { endpointAppProtocol, H2C } from '../../../../../src/endpoint/app-protocol.js';
import type { Unchecked } from '../../../../../src/resolver/kubernetes/api/unchecked.js';
import { type EndpointSlice, parseSlice } from '../../../../../src/resolver/kubernetes/slices/endpoint-slice.js';
import { fitsStore, SliceStore } from '../../../../../src/resolver/kubernetes/slices/slice-store.js';
import { drawIndex } from '../../../../../src/runtime/rng.js';
import { seededRng } from '../../../../../src/testing/seeded-rng.js';
import { SettledSet } from './settled-set.js';

interface Spec {
  readonly address?: string;
  readonly uid?: string;
  readonly ready?: boolean;
  readonly serving?: boolean;
  readonly terminating?: boolean;
}

function slice(name: string, version: string, ...specs: readonly Spec[]): EndpointSlice {
  return sliceSpeaking(undefined, name, version, ...specs);
}

function sliceSpeaking(
  appProtocol: string | undefined,
  name: string,
  version: string,
  ...specs: readonly Spec[]
): EndpointSlice {
  const endpoints = specs.map(({ address = '10.0.0.1', uid, ready = true, serving = ready, terminating = false }) => ({
    addresses: [address],
    conditions: { ready, serving, terminating },
    ...(uid === undefined ? {} : { targetRef: { uid } }),
  }));
  const metadata = { name, resourceVersion: version, labels: { 'kubernetes.io/service-name': 'orders' } };
  return parseSlice(
    { metadata, addressType: 'IPv4', endpoints, ports: [{ name: 'http', port: 80, appProtocol }] } as Unchecked,
    'orders',
  ) as EndpointSlice;
}

function union(...slices: readonly EndpointSlice[]): SettledSet {
  const result = new SettledSet({ families: ['IPv4'], ports: ({ ports }) => ports, accepts: () => true });
  for (const each of slices) result.set(each.name, each);
  result.settle(new Set());
  return result;
}

/** Who holds 10.0.0.1:80, whatever the order of slices and of members. */
function winner(slices: readonly EndpointSlice[]): string | undefined {
  const forward = union(...slices).at('10.0.0.1:80')?.uid;
  const turned = slices.map((each) => ({ ...each, members: [...each.members].reverse() })).reverse();
  expect(union(...turned).at('10.0.0.1:80')?.uid).toBe(forward);
  return forward;
}

describe('U6 one endpoint per address and port', () => {
  it('non-terminating beats terminating, also when not ready', () => {
    expect(
      winner([
        slice('s1', '9', { uid: 'old', serving: true, ready: false, terminating: true }),
        slice('s2', '1', { uid: 'new', ready: false }),
      ]),
    ).toBe('new');
  });

  it('then ready beats unready', () => {
    expect(winner([slice('s1', '9', { uid: 'unready', ready: false }), slice('s2', '1', { uid: 'ready' })])).toBe(
      'ready',
    );
  });

  it('then the slice with the higher version, compared as a number', () => {
    expect(winner([slice('s1', '99', { uid: 'older' }), slice('s2', '100', { uid: 'newer' })])).toBe('newer');
  });

  it("then the slice's name, where versions are equal or not numbers", () => {
    expect(winner([slice('s1', '5', { uid: 'one' }), slice('s2', '5', { uid: 'two' })])).toBe('two');
    expect(winner([slice('s1', 'zz', { uid: 'one' }), slice('s2', 'aa', { uid: 'two' })])).toBe('two');
  });

  it('the same address twice in one slice: terminating and ready', () => {
    expect(
      winner([slice('s1', '5', { uid: 'dying', ready: false, serving: true, terminating: true }, { uid: 'fresh' })]),
    ).toBe('fresh');
    expect(winner([slice('s1', '5', { uid: 'a' }, { uid: 'b' })])).toBe('b');
  });

  it('nothing else decides: of two terminating ones the later slice wins, serving or not', () => {
    const gone = { ready: false, terminating: true };
    expect(
      winner([
        slice('s1', '5', { uid: 'serving', serving: true, ...gone }),
        slice('s2', '6', { uid: 'later', serving: false, ...gone }),
      ]),
    ).toBe('later');
  });
});

describe('SliceUnion', () => {
  it('S2: deleting a slice removes only what no other slice carries', () => {
    const all = union(
      slice('s1', '1', { address: '10.0.0.1' }, { address: '10.0.0.2' }),
      slice('s2', '2', { address: '10.0.0.2' }),
    );
    const touched = new Set<string>();
    all.set('s1', undefined);
    all.settle(touched);
    expect(all.addresses).toEqual(['10.0.0.2:80']);
    expect([...touched]).toEqual(['10.0.0.1:80']);
  });

  it('S10: the same content again keeps the identical endpoint object', () => {
    const all = union(slice('s1', '1', { uid: 'u' }));
    const before = all.at('10.0.0.1:80');
    const touched = new Set<string>();
    all.set('s1', slice('s1', '2', { uid: 'u' }));
    all.settle(touched);
    all.set('s2', slice('s2', '3', { uid: 'u' }));
    all.settle(touched);
    all.set('s1', undefined);
    all.settle(touched);
    expect(all.at('10.0.0.1:80')).toBe(before);
    expect(touched.size).toBe(0);
  });

  it('shows which protocol the port of its slice has, and when that changes', () => {
    const all = union(sliceSpeaking(H2C, 's1', '1', { uid: 'u' }));
    const spoken = (): string | undefined => all.at('10.0.0.1:80')?.attributes.get(endpointAppProtocol);
    expect(spoken()).toBe('kubernetes.io/h2c');
    const before = all.at('10.0.0.1:80');
    const touched = new Set<string>();
    all.set('s1', sliceSpeaking(H2C, 's1', '2', { uid: 'u' }));
    all.settle(touched);
    expect(all.at('10.0.0.1:80')).toBe(before);
    expect(touched.size).toBe(0);
    all.set('s1', slice('s1', '3', { uid: 'u' }));
    all.settle(touched);
    expect(spoken()).toBeUndefined();
    expect(all.at('10.0.0.1:80')?.key).toBe(before?.key);
    expect([...touched]).toEqual(['10.0.0.1:80']);
  });

  it('U7: another uid is another key', () => {
    const all = union(slice('s1', '1', { uid: 'u1' }));
    const touched = new Set<string>();
    all.set('s1', slice('s1', '2', { uid: 'u2' }));
    all.settle(touched);
    expect(all.at('10.0.0.1:80')?.key).toBe('10.0.0.1:80#u2');
    expect([...touched]).toEqual(['10.0.0.1:80']);
  });

  it('is sorted by address and port', () => {
    const all = union(
      slice('s1', '1', { address: '10.0.0.3' }, { address: '10.0.0.1' }),
      slice('s2', '1', { address: '10.0.0.2' }),
    );
    expect(all.addresses).toEqual(['10.0.0.1:80', '10.0.0.2:80', '10.0.0.3:80']);
  });

  it('equals a fresh union of the same slices after any sequence of changes', () => {
    const rng = seededRng(11);
    const store = new SliceStore();
    const all = union();
    for (let step = 1; step <= 2_000; step++) {
      const name = `s${drawIndex(rng, 5)}`;
      const specs = Array.from(
        { length: drawIndex(rng, 6) },
        (): Spec => ({
          address: `10.0.0.${1 + drawIndex(rng, 8)}`,
          uid: `u${drawIndex(rng, 3)}`,
          ready: rng.next() < 0.6,
          terminating: rng.next() < 0.3,
        }),
      );
      const next = rng.next() < 0.2 ? undefined : slice(name, String(step), ...specs);
      store.set(name, next);
      all.set(name, next);
      all.settle(new Set());
      const fresh = union(...store.values());
      expect(all.addresses.map((address) => all.at(address))).toEqual(
        fresh.addresses.map((address) => fresh.at(address)),
      );
    }
  });
});

describe('many slices that name one address', () => {
  it('are processed once per turn, not once per slice', () => {
    const reads = { count: 0 };
    const slices = Array.from({ length: 2_000 }, (_, index) => {
      const made = slice(`s${index}`, String(index), { uid: `u${index}` });
      // Whoever compares two slices reads their versions.
      return Object.defineProperty({ ...made }, 'version', {
        get: () => {
          reads.count++;
          return String(index);
        },
      });
    });
    const all = union(...slices);
    expect(all.at('10.0.0.1:80')?.uid).toBe('u1999');
    expect(reads.count).toBeLessThan(10_000);
    for (const each of slices) all.set(each.name, each);
    all.settle(new Set());
    expect(reads.count).toBeLessThan(20_000);
    for (const each of slices) all.set(each.name, undefined);
    all.settle(new Set());
    expect(all.addresses).toEqual([]);
  });
});

describe('SliceStore', () => {
  it('holds a limited number of slices and a limited amount of text; refusing one leaves the rest unchanged', () => {
    const store = new SliceStore();
    for (let index = 0; index < 10_000; index++) expect(store.set(`s${index}`, slice(`s${index}`, '1'))).toBe(true);
    expect(store.set('more', slice('more', '1'))).toBe(false);
    expect(store.set('s1', slice('s1', '2', { uid: 'u' }))).toBe(true);
    expect(store.set('s1', slice('s1', '3', { uid: 'u'.repeat(70_000_000) }))).toBe(false);
    expect(store.get('s1')?.version).toBe('2');
    store.set('s2', undefined);
    expect(store.set('more', slice('more', '1'))).toBe(true);
    expect(store.size).toBe(10_000);
    const many = Array.from({ length: 10_001 }, (_, index) => slice(`s${index}`, '1'));
    expect([fitsStore(many), fitsStore(many.slice(1))]).toEqual([false, true]);
  });

  it('W3: replaces everything with a list, and names what it replaced', () => {
    const store = new SliceStore();
    expect([...store.replace([slice('s1', '1'), slice('s2', '2')])]).toEqual(['s1', 's2']);
    expect([...store.replace([slice('s2', '3'), slice('s3', '4')])].sort()).toEqual(['s1', 's2', 's3']);
    expect([...store.names()].sort()).toEqual(['s2', 's3']);
  });

  it('takes the same version with other content as another slice: a restored store reuses versions', () => {
    const store = new SliceStore();
    store.set('s1', slice('s1', '7', { address: '10.0.0.1' }));
    store.set('s1', slice('s1', '7', { address: '10.0.0.2' }));
    expect(store.get('s1')?.members[0]?.address).toBe('10.0.0.2');
  });
});

describe('S8 many slices, mostly half empty', () => {
  it('53 slices of 1 to 100 endpoints are one set, and emptying one touches no other', () => {
    const address = (slot: number, index: number): string => `10.${slot}.0.${index}`;
    const sizes = Array.from({ length: 53 }, (_, slot) => 1 + ((slot * 37) % 100));
    const all = union(
      ...sizes.map((size, slot) =>
        slice(`s${slot}`, '1', ...Array.from({ length: size }, (_, index) => ({ address: address(slot, index) }))),
      ),
    );
    const present = (slot: number): number =>
      Array.from({ length: 100 }, (_, index) => all.at(`${address(slot, index)}:80`)).filter(Boolean).length;
    expect(sizes.map((_, slot) => present(slot))).toEqual(sizes);
    const emptied = slice('s7', '2');
    all.set('s7', emptied);
    all.settle(new Set());
    expect(sizes.map((_, slot) => present(slot))).toEqual(sizes.map((size, slot) => (slot === 7 ? 0 : size)));
  });
});
