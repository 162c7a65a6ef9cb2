import { describe, expect, it } from 'vitest';
import {
  hostFamilies,
  type InterfaceAddress,
  lookupFamilies,
  onlyHostFamily,
} from '../../../src/resolver/host-families.js';

const v4 = (address: string, internal = false): InterfaceAddress => ({ address, family: 'IPv4', internal });
const v6 = (address: string, internal = false): InterfaceAddress => ({ address, family: 'IPv6', internal });
const loopback = [v4('127.0.0.1', true), v6('::1', true)];

describe('S3: the address families of a host', () => {
  it.each([
    ['both', [v4('10.0.0.7'), v6('fd00::7')], ['IPv4', 'IPv6']],
    ['IPv4, with the link-local IPv6 address that every interface has', [v4('10.0.0.7'), v6('fe80::1')], ['IPv4']],
    [
      'IPv6, with a link-local IPv4 address for what leaves the cluster',
      [v4('169.254.172.2'), v6('2001:db8::7')],
      ['IPv6'],
    ],
    ['none, with loopback alone', [], []],
    ['none, with link-local addresses alone', [v6('febf::1'), v4('169.254.0.1')], []],
    ['IPv6, of a range that only looks link-local', [v6('fec0::1')], ['IPv6']],
  ] as const)('%s', (_what, addresses, expected) => {
    const families = hostFamilies([...loopback, ...addresses]);
    expect([...families].sort()).toEqual(expected);
    expect(onlyHostFamily(families)).toBe(expected.length === 1 ? expected[0] : undefined);
  });

  it('are read from the interfaces of this machine', () => {
    expect(hostFamilies().size).toBeLessThanOrEqual(2);
    expect(lookupFamilies(6)).toEqual([6]);
    expect([...lookupFamilies()].sort()).toEqual([4, 6]);
  });
});
