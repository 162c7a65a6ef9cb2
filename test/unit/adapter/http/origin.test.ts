import { describe, expect, it } from 'vitest';
import { OriginMatcher, serviceOrigin } from '../../../../src/adapter/http/origin.js';

const matcher = (target: string, domain?: string): OriginMatcher => new OriginMatcher(new URL(target), domain);

describe('OriginMatcher', () => {
  const short = matcher('http://orders.shop:8080');
  const full = matcher('http://orders.shop.svc.cluster.local:8080');
  const same = [
    'http://orders.shop:8080',
    'http://ORDERS.shop:8080/',
    'http://orders.shop.svc:8080',
    'http://orders.shop.svc.cluster.local:8080',
    'http://orders.shop.svc.cluster.local.:8080',
    'http://orders.shop.:8080',
  ];
  const others = [
    'https://orders.shop:8080',
    'http://orders.shop',
    'http://orders.shop:8081',
    'http://orders.other:8080',
    'http://orders.shop.example.com:8080',
    'http://orders.shop.svc.example.com:8080',
    'http://pod-0.orders.shop.svc.cluster.local:8080',
    'http://orders.shop.svc.cluster.local.example.com:8080',
    'http://orders:8080',
    'http://127.0.0.1:8080',
    'not a url',
    '',
  ];

  it.each(same)('%s is the Service, whichever of its names the target used', (origin) => {
    expect(short.matches(origin)).toBe(true);
    expect(full.matches(origin)).toBe(true);
    expect(short.matches(new URL(origin))).toBe(true);
  });

  it.each(others)('%j is another server', (origin) => {
    expect(short.matches(origin)).toBe(false);
    expect(full.matches(origin)).toBe(false);
    // The remembered answer is the same.
    expect(short.matches(origin)).toBe(false);
  });

  it('a request without an origin is for the target', () => {
    expect(short.matches(undefined)).toBe(true);
  });

  it('adds the default port of the scheme', () => {
    expect(matcher('https://orders.shop').matches('https://orders.shop:443')).toBe(true);
    expect(matcher('http://orders.shop:80').matches('http://orders.shop')).toBe(true);
  });

  it('takes the cluster domain from the target or the option', () => {
    const own = 'http://orders.shop.svc.corp.example:8080';
    expect(matcher('http://orders.shop:8080').matches(own)).toBe(false);
    expect(matcher('http://orders.shop:8080', 'corp.example').matches(own)).toBe(true);
    expect(matcher(own).matches('http://orders.shop:8080')).toBe(true);
    expect(matcher(own).matches('http://orders.shop.svc.cluster.local:8080')).toBe(false);
  });

  it('accepts the cluster domain later, unless the target names it', () => {
    const own = 'http://orders.shop.svc.corp.example:8080';
    const short = matcher('http://orders.shop:8080');
    expect(short.matches(own)).toBe(false);
    short.learnDomain('corp.example');
    expect(short.matches(own)).toBe(true);
    expect(short.matches('http://orders.shop.svc.cluster.local:8080')).toBe(false);
    const full = matcher('http://orders.shop.svc.cluster.local:8080');
    full.learnDomain('corp.example');
    expect(full.matches(own)).toBe(false);
  });

  it('compares addresses and names outside the cluster letter by letter', () => {
    const address = matcher('http://10.0.0.1:8080');
    expect(address.matches('http://10.0.0.1:8080')).toBe(true);
    expect(address.matches('http://10.0.0.2:8080')).toBe(false);
    const ipv6 = matcher('http://[::1]:8080');
    expect(ipv6.matches('http://[0:0:0:0:0:0:0:1]:8080')).toBe(true);
    expect(ipv6.matches('http://[::2]:8080')).toBe(false);
    expect(matcher('http://localhost:8080').matches('http://localhost.svc:8080')).toBe(false);
  });
});

describe('serviceOrigin', () => {
  it.each([
    'orders.shop:8080',
    'ftp://orders.shop',
    'http://',
    '',
    'http://orders.shop:8080/v1',
    'http://orders.shop:8080/?a=1',
    'http://orders.shop:8080/#a',
    42,
    undefined,
    null,
  ])('refuses %j and says what it expects', (target) => {
    expect(() => serviceOrigin('target', target)).toThrow(
      expect.objectContaining({ code: 'EVENKEEL_OPTION', message: expect.stringContaining('http://orders.shop:8080') }),
    );
  });

  it('does not print a password', () => {
    expect(() => serviceOrigin('target', 'http://user:secret@orders.shop')).toThrow(
      expect.objectContaining({ code: 'EVENKEEL_OPTION', message: expect.not.stringContaining('secret') }),
    );
  });
});
