import { describe, expect, it } from 'vitest';
import {
  checkAllowAddresses,
  classifyAddress,
  describeRefused,
  filterUnsafe,
} from '../../../src/endpoint/unsafe-address.js';

describe('classifyAddress', () => {
  it.each([
    ['127.0.0.1', 'loopback'],
    ['127.255.255.254', 'loopback'],
    ['127.000.000.001', 'loopback'],
    ['::1', 'loopback'],
    ['0:0:0:0:0:0:0:1', 'loopback'],
    ['::ffff:127.0.0.1', 'loopback'],
    ['::ffff:7f00:1', 'loopback'],
    ['64:ff9b::7f00:1', 'loopback'],
    ['::127.0.0.1', 'loopback'],
    ['169.254.169.254', 'link-local'],
    ['64:ff9b::a9fe:a9fe', 'link-local'],
    ['fe80::1', 'link-local'],
    ['fe80::1%eth0', 'link-local'],
    ['febf::1', 'link-local'],
    ['FE80:0:0:0:0:0:0:1', 'link-local'],
    ['224.0.0.1', 'multicast'],
    ['239.255.255.255', 'multicast'],
    ['ff02::1', 'multicast'],
    ['0.0.0.0', 'unspecified'],
    ['0.1.2.3', 'unspecified'],
    ['::', 'unspecified'],
    ['255.255.255.255', 'unspecified'],
    // IPv4 inside IPv6: SIIT, NAT64 for local use at each prefix length, 6to4, Teredo (server; client), ISATAP.
    ['::ffff:0:7f00:1', 'loopback'],
    ['::ffff:0:127.0.0.1', 'loopback'],
    ['::ffff:0:a9fe:a9fe', 'link-local'],
    ['64:ff9b::127.0.0.1', 'loopback'],
    ['64:ff9b:1::7f00:1', 'loopback'],
    ['64:ff9b:1:abcd::7f00:1', 'loopback'],
    ['64:ff9b:1:7f00:0:100::', 'loopback'],
    ['64:ff9b:1:7f:0:1::', 'loopback'],
    ['64:ff9b:1:abcd:7f:0:100:0', 'loopback'],
    ['64:ff9b:1:a9fe:a9:fe00::', 'link-local'],
    ['2002:7f00:1::1', 'loopback'],
    ['2002:a9fe:a9fe::', 'link-local'],
    ['2002:6464:64c8::1', 'metadata'],
    ['2001:0:7f00:1::', 'loopback'],
    ['2001:0:a00:1:0:0:80ff:fffe', 'loopback'],
    ['fd00::5efe:7f00:1', 'loopback'],
    ['2001:db8::200:5efe:a9fe:a9fe', 'link-local'],
    // Metadata services that are not link-local.
    ['fd00:ec2::254', 'metadata'],
    ['fd00:ec2::23', 'metadata'],
    ['FD00:0EC2:0:0:0:0:0:254', 'metadata'],
    ['fd20:ce::254', 'metadata'],
    ['fd00:42::42', 'metadata'],
    ['100.100.100.200', 'metadata'],
    ['::ffff:100.100.100.200', 'metadata'],
    ['168.63.129.16', 'metadata'],
    ['192.0.0.192', 'metadata'],
  ])('%s is %s', (address, expected) => {
    expect(classifyAddress(address)).toBe(expected);
  });

  it.each([
    '10.0.0.1',
    '100.64.0.1',
    '172.17.0.2',
    '192.168.0.1',
    '198.18.0.1',
    '8.8.8.8',
    'fd00::1',
    '2001:db8::1',
    'fec0::1',
    '0fe8::1',
    'ff::1',
    '0ff2::1',
    '12.7.0.1',
    '169.253.255.255',
    '223.255.255.255',
    '240.0.0.1',
    '1.0.0.0',
    '64:ff9b::a00:1',
    '64:ff9b:1::a00:1',
    '64:ff9b:1:a00:0:100::',
    '2002:a00:1::1',
    '2001:0:808:808:0:0:f7f7:f7f7',
    'fd00::5efe:a00:1',
    'fd00::5eff:7f00:1',
    '::ffff:0:a00:1',
    '2001:db8:7f00:1::',
    'fd00:ec20::254',
    '100.100.100.201',
    '168.63.129.17',
    '::ffff:10.0.0.1',
    'orders.shop.svc.cluster.local',
    'localhost',
    '',
  ])('%s is safe or not an address', (address) => {
    expect(classifyAddress(address)).toBeUndefined();
  });
});

describe('filterUnsafe', () => {
  const addresses = ['10.0.0.1', '127.0.0.1', '169.254.169.254'];

  it('refuses what allowAddresses does not name', () => {
    const result = filterUnsafe(addresses, (address) => address, []);
    expect(result.allowed).toEqual(['10.0.0.1']);
    expect(result.refused.map((entry) => entry.class)).toEqual(['loopback', 'link-local']);
  });

  it('accepts what allowAddresses names, and only that', () => {
    const result = filterUnsafe(addresses, (address) => address, ['loopback']);
    expect(result.allowed).toEqual(['10.0.0.1', '127.0.0.1']);
    expect(describeRefused('orders.shop', result.refused)).toBe(
      "orders.shop: refused 169.254.169.254 (link-local), which no pod can have; to allow it, set allowAddresses: ['link-local']",
    );
  });
});

describe('checkAllowAddresses', () => {
  it('defaults to an empty list and names a bad value', () => {
    expect(checkAllowAddresses(undefined)).toEqual([]);
    expect(checkAllowAddresses(['loopback', 'multicast'])).toEqual(['loopback', 'multicast']);
    expect(() => checkAllowAddresses(['localhost'])).toThrow(
      /allowAddresses must be a list of 'loopback'.*"localhost"/,
    );
    expect(() => checkAllowAddresses('loopback')).toThrow(/allowAddresses must be a list/);
  });
});
