import { describe, expect, it } from 'vitest';
import { classifyAddress } from '../../../../../src/endpoint/unsafe-address.js';
import type { Unchecked } from '../../../../../src/resolver/kubernetes/api/unchecked.js';
import { type EndpointSlice, parseSlice } from '../../../../../src/resolver/kubernetes/slices/endpoint-slice.js';
import { drawIndex } from '../../../../../src/runtime/rng.js';
import { seededRng } from '../../../../../src/testing/seeded-rng.js';

function parse(
  more: Record<string, unknown>,
  labels: unknown = { 'kubernetes.io/service-name': 'orders' },
): EndpointSlice | undefined {
  const object = { metadata: { name: 's1', resourceVersion: '7', labels }, addressType: 'IPv4', ...more };
  return parseSlice(object as Unchecked, 'orders');
}

const addresses = (slice: EndpointSlice | undefined): string[] | undefined =>
  slice?.members.map(({ address }) => address);

describe('parseSlice', () => {
  it('S1: assigns a slice to a Service by its label alone, whoever manages it', () => {
    expect(parse({})?.name).toBe('s1');
    expect(
      parse({}, { 'kubernetes.io/service-name': 'orders', 'endpointslice.kubernetes.io/managed-by': 'me' }),
    ).toBeDefined();
    for (const labels of [
      { 'kubernetes.io/service-name': 'carts' },
      { 'kubernetes.io/service-name': '' },
      {},
      null,
      undefined,
      [],
    ]) {
      expect(parse({}, labels ?? null)).toBeUndefined();
    }
  });

  it('S3: finds no members in FQDN and unknown address types', () => {
    for (const addressType of ['FQDN', 'IPv5', undefined, 4]) {
      const slice = parse({ addressType, endpoints: [{ addresses: ['10.0.0.1'] }] });
      expect(slice).toMatchObject({ family: undefined, members: [] });
    }
  });

  it('S4: uses the first address, in canonical form, and skips entries without one', () => {
    expect(
      addresses(parse({ endpoints: [{ addresses: ['010.000.000.001', '10.0.0.9'] }, { addresses: [] }, {}, null, 7] })),
    ).toEqual(['10.0.0.1']);
    const slice = parse({ addressType: 'IPv6', endpoints: [{ addresses: ['FD00:0:0:0:0:0:0:00A1'] }] });
    expect(addresses(slice)).toEqual(['fd00::a1']);
  });

  it('S4: skips and names an address that is not an IP address of the family', () => {
    const slice = parse({
      endpoints: [
        { addresses: ['example.com'] },
        { addresses: ['fd00::1'] },
        { addresses: [7] },
        { addresses: ['10.0.0.1'] },
      ],
    });
    expect(addresses(slice)).toEqual(['10.0.0.1']);
    expect(slice?.malformed).toEqual(['example.com', 'fd00::1', '7']);
  });

  it('S5: takes missing ready and serving as true, missing terminating as false, and null as missing', () => {
    const conditionsOf = (conditions: unknown): unknown =>
      parse({ endpoints: [{ addresses: ['10.0.0.1'], conditions }] })?.members[0]?.conditions;
    const whole = { ready: true, serving: true, terminating: false };
    expect(conditionsOf(undefined)).toEqual(whole);
    expect(conditionsOf(null)).toEqual(whole);
    expect(conditionsOf({})).toEqual(whole);
    expect(conditionsOf({ ready: null, serving: null, terminating: null })).toEqual(whole);
    expect(conditionsOf({ ready: false, serving: false, terminating: true })).toEqual({
      ready: false,
      serving: false,
      terminating: true,
    });
  });

  it('S6: takes TCP as default, no number as no port, and no name as ""', () => {
    const portsOf = (ports: unknown): unknown => parse({ ports })?.ports;
    expect(portsOf([{ name: 'http', port: 80 }])).toEqual([{ name: 'http', port: 80 }]);
    expect(
      portsOf([
        { port: 80, protocol: 'TCP' },
        { name: null, port: 81, protocol: null },
      ]),
    ).toEqual([
      { name: '', port: 80 },
      { name: '', port: 81 },
    ]);
    expect(
      portsOf([{ name: 'http' }, { name: 'x', port: 0 }, { name: 'y', port: null }, { name: 'z', port: 70_000 }]),
    ).toEqual([]);
    expect(
      portsOf([
        { name: 'dns', port: 53, protocol: 'UDP' },
        { name: 'dns-tcp', port: 53 },
      ]),
    ).toEqual([{ name: 'dns-tcp', port: 53 }]);
  });

  it('S7: takes null lists as empty', () => {
    expect(parse({ endpoints: null, ports: null })).toMatchObject({ members: [], ports: [] });
  });

  it('S10: ignores unknown fields, and known ones of the wrong type', () => {
    const slice = parse({
      surprise: 1,
      endpoints: [
        {
          addresses: ['10.0.0.1'],
          hints: 'zone',
          targetRef: 5,
          zone: 7,
          nodeName: [],
          conditions: 'ready',
          deprecatedTopology: {},
        },
      ],
      ports: 'http',
    });
    expect(slice?.members[0]).toMatchObject({
      address: '10.0.0.1',
      uid: undefined,
      zone: undefined,
      nodeName: undefined,
      hintZones: [],
    });
  });

  it('reads what stages and people need', () => {
    const slice = parse({
      endpoints: [
        {
          addresses: ['10.0.0.1'],
          zone: 'z1',
          nodeName: 'n1',
          targetRef: { kind: 'Pod', name: 'orders-1', uid: 'u1' },
          hints: { forZones: [{ name: 'z1' }, { name: 'z2' }, {}], forNodes: [{ name: 'n1' }] },
        },
        { addresses: ['10.0.0.2'], hostname: 'orders-2' },
      ],
    });
    expect(slice?.members).toMatchObject([
      { uid: 'u1', name: 'orders-1', zone: 'z1', nodeName: 'n1', hintZones: ['z1', 'z2'], hintNodes: ['n1'] },
      { uid: undefined, name: 'orders-2' },
    ]);
  });

  it('recognizes addresses that no pod has', () => {
    const slice = parse({
      endpoints: ['127.0.0.1', '169.254.169.254', '224.0.0.1', '0.0.0.0', '10.0.0.1'].map((address) => ({
        addresses: [address],
      })),
    });
    expect(slice?.members.map(({ unsafe }) => unsafe)).toEqual([
      'loopback',
      'link-local',
      'multicast',
      'unspecified',
      undefined,
    ]);
  });

  it('agrees with the lists of unsafe addresses for every prefix', () => {
    const unsafeOf = (addressType: string, address: string): unknown =>
      parse({ addressType, endpoints: [{ addresses: [address] }] })?.members[0]?.unsafe;
    for (let first = 0; first <= 255; first++) {
      const metadata = [`${first}.100.100.200`, `${first}.63.129.16`, `${first}.0.0.192`, `${first}.168.1.1`];
      for (const address of [`${first}.0.0.1`, `${first}.254.169.254`, ...metadata]) {
        expect(unsafeOf('IPv4', address), address).toBe(classifyAddress(address));
      }
    }
    const ipv6 = ['::', '::1', '::7f00:1', '64:ff9b::7f00:1', 'fe80::1', 'febf::1', '2::1', 'fd::1', '3fff::1'];
    ipv6.push(
      '2001::1',
      '2001:0:1::1',
      '2001:0:7f00:1::',
      '2001:db8::1',
      '2001:db8::5efe:7f00:1',
      'fd12::200:5efe:a9fe:a9fe',
    );
    ipv6.push(
      '2002:7f00:1::1',
      '2002:a00:1::1',
      'fd00:ec2::254',
      'fd00:ec2::1',
      'fd00:ec20::1',
      'fd20:ce::254',
      'fd00:42::42',
    );
    for (let first = 0; first <= 0xff; first++) ipv6.push(`${((first << 8) | 0x11).toString(16)}::1`);
    for (const address of ipv6) expect(unsafeOf('IPv6', address), address).toBe(classifyAddress(address));
  });

  it('never throws, whatever it is given: an event that made it throw would come again and again', () => {
    const rng = seededRng(6);
    const values: readonly unknown[] = [
      null,
      0,
      -1,
      1.5,
      '',
      'x',
      '10.0.0.1',
      'fe80::1%eth0',
      '::ffff:1.2.3.4%1',
      true,
      [],
      {},
      [null],
      [[]],
    ];
    const fields = [
      'addresses',
      'conditions',
      'hints',
      'targetRef',
      'zone',
      'forZones',
      'name',
      'uid',
      'port',
      'protocol',
      'ready',
    ];
    const anything = (depth: number): unknown => {
      if (depth === 0 || rng.next() < 0.3) return values[drawIndex(rng, values.length)];
      if (rng.next() < 0.4) return Array.from({ length: drawIndex(rng, 4) }, () => anything(depth - 1));
      return Object.fromEntries(
        Array.from({ length: drawIndex(rng, 5) }, () => [fields[drawIndex(rng, fields.length)], anything(depth - 1)]),
      );
    };
    for (let round = 0; round < 20_000; round++) {
      const addressType = ['IPv4', 'IPv6', anything(1)][drawIndex(rng, 3)];
      const slice = parse({ addressType, endpoints: anything(4), ports: anything(3) });
      for (const { address, conditions } of slice?.members ?? []) {
        expect([typeof address, typeof conditions.ready]).toEqual(['string', 'boolean']);
      }
    }
  });
});
