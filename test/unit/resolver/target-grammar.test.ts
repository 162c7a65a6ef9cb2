import { describe, expect, it } from 'vitest';
import { isEvenkeelError } from '../../../src/errors.js';
import { parseTarget } from '../../../src/resolver/target-grammar.js';

const orders = { service: 'orders', namespace: 'shop', domain: undefined };

describe('parseTarget', () => {
  it.each([
    ['orders.shop:8080', { kind: 'plain', host: 'orders.shop', port: 8080 }],
    ['  Orders.Shop:HTTP\n', { kind: 'plain', host: 'orders.shop', port: 'http' }],
    ['orders:80', { kind: 'plain', host: 'orders', port: 80 }],
    ['orders.shop.svc.cluster.local:80', { kind: 'plain', host: 'orders.shop.svc.cluster.local', port: 80 }],
    ['github.com.:443', { kind: 'plain', host: 'github.com.', port: 443 }],
    ['localhost:3000', { kind: 'plain', host: 'localhost', port: 3000 }],
    ['10.0.0.1:80', { kind: 'plain', host: '10.0.0.1', port: 80 }],
    ['[fd00::1]:80', { kind: 'plain', host: 'fd00::1', port: 80 }],
    ['dns:53', { kind: 'plain', host: 'dns', port: 53 }],
    ['kubernetes:443', { kind: 'plain', host: 'kubernetes', port: 443 }],
    ['kubernetes.default:https', { kind: 'plain', host: 'kubernetes.default', port: 'https' }],
    ['kubernetes:orders.shop:http', { kind: 'kubernetes', service: orders, port: 'http' }],
    ['kubernetes:orders.shop:80', { kind: 'kubernetes', service: orders, port: 80 }],
    ['kubernetes:orders:http', { kind: 'kubernetes', service: { ...orders, namespace: undefined }, port: 'http' }],
    [
      'kubernetes:orders.shop.svc.cluster.local:http-alt2',
      { kind: 'kubernetes', service: { ...orders, domain: 'cluster.local' }, port: 'http-alt2' },
    ],
    ['dns:orders.shop:8080', { kind: 'dns', host: 'orders.shop', port: 8080 }],
    ['dns:orders.shop:http', { kind: 'dns', host: 'orders.shop', port: 'http' }],
    ['dns:db.example.com.:5432', { kind: 'dns', host: 'db.example.com.', port: 5432 }],
    [
      'static:10.0.0.1:80, [fd00::2]:81,localhost:82',
      {
        kind: 'static',
        endpoints: [
          { address: '10.0.0.1', port: 80 },
          { address: 'fd00::2', port: 81 },
          { address: '127.0.0.1', port: 82 },
        ],
      },
    ],
  ])('%j', (target, expected) => {
    expect(parseTarget(target)).toEqual(expected);
  });

  it.each([
    ['', 'it is empty'],
    ['   ', 'it is empty'],
    ['orders.shop', 'target must be <service>.<namespace>:<port>, got "orders.shop": the port is missing'],
    ['orders.shop:', 'the port is missing'],
    [':80', 'the host is missing'],
    ['orders.shop:0', '0 is no port from 1 to 65535'],
    ['orders.shop:65536', '65536 is no port from 1 to 65535'],
    ['orders.shop:-1', '"-1" is no port name or number'],
    ['orders.shop:80x_', '"80x_" is no port name or number'],
    ['orders shop:80', '"orders shop" is no host name'],
    ['a..b:80', '"a..b" is no host name'],
    ['http://orders.shop:80', 'it is a URL; leave out "http://" and everything after the port'],
    ['orders.shop:80/v1', '"/" is no part of a host and port'],
    ['user@orders.shop:80', '"@" is no part of a host and port'],
    ['fd00::1', 'an IPv6 address goes into brackets, with a port after it: [fd00::1]:80'],
    ['[fd00::1]', 'the port is missing'],
    ['[10.0.0.1]:80', '"[10.0.0.1]" is no IPv6 address'],
    [
      'kubernetes:orders.shop',
      'target must be kubernetes:<service>.<namespace>:<port name or number>, got "kubernetes:orders.shop": the port is missing',
    ],
    ['kubernetes:10.0.0.1:80', '"10.0.0.1" is not the name of a Service'],
    ['kubernetes:a.b.c.d:80', '"a.b.c.d" is not the name of a Service'],
    ['kubernetes:orders.shop:http:80', '"orders.shop:http" is no host name'],
    ['dns:orders.shop', 'target must be dns:<host>:<port name or number>, got "dns:orders.shop": the port is missing'],
    ['static:', 'there is nothing between two commas'],
    ['static:10.0.0.1:80,', 'there is nothing between two commas'],
    ['static:10.0.0.1', 'the port is missing'],
    ['static:10.0.0.1:http', '"http" is no port number'],
    ['static:orders.shop:80', '"orders.shop" is no IP address; dns:orders.shop:80 would look it up'],
    ['consul:orders:80', '"consul:orders" is no host name'],
  ])('%j: %s', (target, message) => {
    let thrown: unknown;
    try {
      parseTarget(target);
    } catch (error) {
      thrown = error;
    }
    expect(isEvenkeelError(thrown, 'EVENKEEL_OPTION')).toBe(true);
    expect((thrown as Error).message).toContain(message);
  });
});
