import { describe, expect, it } from 'vitest';
import { hostPort, normalizeAddress } from '../../../src/endpoint/address.js';
import { Attributes, attributeKey } from '../../../src/endpoint/attributes.js';
import { createEndpoint, type EndpointInit, endpointAddress } from '../../../src/endpoint/endpoint.js';
import { EndpointSet } from '../../../src/endpoint/endpoint-set.js';
import { outcomes } from '../../../src/endpoint/outcome.js';

const at = (address: string, more: Partial<EndpointInit> = {}) => createEndpoint({ address, port: 80, ...more });

describe('addresses (S4)', () => {
  it.each([
    ['10.0.0.1', '10.0.0.1'],
    [' 10.0.0.1 ', '10.0.0.1'],
    ['010.001.000.009', '10.1.0.9'],
    ['2001:DB8:0:0:0:0:0:1', '2001:db8::1'],
    ['::FFFF:10.0.0.1', '10.0.0.1'],
    ['::ffff:a00:1', '10.0.0.1'],
    ['fe80::1%eth0', 'fe80::1%eth0'],
    ['FE80:0::1%Eth0', 'fe80::1%Eth0'],
    ['Orders.Shop', 'orders.shop'],
    ['256.1.1.1', '256.1.1.1'],
    ['1.2.3', '1.2.3'],
  ])('%s becomes %s, however often it is normalized', (address, canonical) => {
    expect(normalizeAddress(address)).toBe(canonical);
    expect(normalizeAddress(canonical)).toBe(canonical);
  });

  it('puts IPv6 in brackets', () => {
    expect(hostPort('10.0.0.1', 80)).toBe('10.0.0.1:80');
    expect(hostPort('::1', 80)).toBe('[::1]:80');
  });
});

describe('an endpoint', () => {
  it('U7: is identified by address, port and uid', () => {
    expect(at('10.0.0.1').key).toBe('10.0.0.1:80');
    expect(at('10.0.0.1', { uid: 'a' }).key).toBe('10.0.0.1:80#a');
    expect(at('010.0.0.1').key).toBe(at('10.0.0.1').key);
    expect(at('10.0.0.1', { uid: '' }).key).toBe('10.0.0.1:80');
    expect(endpointAddress(at('::1', { uid: 'a' }))).toBe('[::1]:80');
  });

  it('S5: missing conditions are ready, serving and not terminating, also where they are present but undefined', () => {
    const defaults = { ready: true, serving: true, terminating: false };
    expect(at('10.0.0.1').conditions).toEqual(defaults);
    expect(at('10.0.0.1', { conditions: {} }).conditions).toEqual(defaults);
    const undefinedOnes = { ready: undefined, serving: undefined, terminating: undefined } as never;
    expect(at('10.0.0.1', { conditions: undefinedOnes }).conditions).toEqual(defaults);
    expect(at('10.0.0.1', { conditions: { ready: false } }).conditions).toEqual({ ...defaults, ready: false });
  });

  it('is deeply frozen', () => {
    const zones = ['a'];
    const endpoint = at('10.0.0.1', { hintZones: zones, conditions: { ready: false } });
    zones.push('b');
    expect(endpoint.hintZones).toEqual(['a']);
    for (const part of [endpoint, endpoint.hintZones, endpoint.conditions]) expect(Object.isFrozen(part)).toBe(true);
  });

  it.each([
    [{ address: '', port: 80 }, 'address must be a non-empty string'],
    [{ address: '10.0.0.1', port: 0 }, 'port must be a port from 1 to 65535, got 0'],
    [{ address: '10.0.0.1', port: 80, weight: 0 }, 'weight must be a number above 0, got 0'],
    [{ address: '10.0.0.1', port: 80, weight: Number.POSITIVE_INFINITY }, 'weight must be a number above 0'],
  ])('%o is refused', (init, message) => {
    expect(() => createEndpoint(init)).toThrow(message);
  });

  it('carries typed attributes', () => {
    const one = attributeKey<number>('n');
    const same = attributeKey<number>('n');
    const attributes = Attributes.empty.with(one, 5);
    expect([attributes.get(one), attributes.get(same), Attributes.empty.get(one)]).toEqual([5, undefined, undefined]);
  });
});

describe('an endpoint set', () => {
  it('has each key once: the first entry counts', () => {
    const set = EndpointSet.of(3, [at('10.0.0.1', { weight: 2 }), at('10.0.0.2'), at('10.0.0.1', { weight: 9 })]);
    expect(set.entries.map(({ endpoint, weight }) => [endpoint.address, weight])).toEqual([
      ['10.0.0.1', 2],
      ['10.0.0.2', 1],
    ]);
    expect([set.version, set.size]).toEqual([3, 2]);
  });

  it('is returned unchanged where nothing changes, so that a stage can tell', () => {
    const set = EndpointSet.of(1, [at('10.0.0.1'), at('10.0.0.2')]);
    expect(set.filter(() => true)).toBe(set);
    expect(set.map((entry) => entry)).toBe(set);
    expect(set.withEntries(set.entries)).toBe(set);
    const suspect = set.map((entry) => ({ ...entry, suspect: true }));
    expect(suspect).not.toBe(set);
    expect(suspect.version).toBe(1);
    expect(set.filter(({ endpoint }) => endpoint.address === '10.0.0.2').size).toBe(1);
  });
});

describe('outcomes', () => {
  it('are frozen constants', () => {
    expect(Object.isFrozen(outcomes)).toBe(true);
    for (const outcome of Object.values(outcomes)) expect(Object.isFrozen(outcome)).toBe(true);
  });
});

it.each([
  ['otherAddress', '203.0.113.1'],
  ['uid', 'theirs'],
  ['hintZones', ['a']],
  ['weight', 7],
  ['conditions', { ready: false }],
  ['ready', false],
])('an endpoint has nothing that every object inherits: %s', (name, value) => {
  const init = { address: '10.0.0.1', port: 80, conditions: {} };
  const expected = createEndpoint(init);
  Object.defineProperty(Object.prototype, name, { value, configurable: true });
  try {
    const endpoint = createEndpoint(name === 'conditions' ? { address: '10.0.0.1', port: 80 } : init);
    expect({ ...endpoint, conditions: { ...endpoint.conditions } }).toEqual({
      ...expected,
      conditions: { ...expected.conditions },
    });
  } finally {
    Reflect.deleteProperty(Object.prototype, name);
  }
});
