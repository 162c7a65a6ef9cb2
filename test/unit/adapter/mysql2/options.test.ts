import { describe, expect, it } from 'vitest';
import { createPoolCluster, type PoolClusterOptions } from '../../../../src/adapter/mysql2/index.js';
import { hostOf, targetOf } from '../../../../src/adapter/sql/where.js';
import { FakeResolver } from '../../../../src/testing/fake-resolver.js';

const SECRET = 'hunter2-kP9x';

describe('options of createPoolCluster', () => {
  const resolver = new FakeResolver();
  it.each<[string, object, RegExp]>([
    ['nothing', {}, /where are the servers\?/],
    ['a target and a resolver', { target: 'a.b:1', resolver }, /target and resolver say the same/],
    ['a target and a port', { target: 'a.b:1', port: 3306 }, /port goes with host alone/],
    ['a target that is none', { target: 'mysql' }, /target must be .*the port is missing/],
    ['a port that is none', { host: 'mysql.shop', port: 0 }, /port must be a port from 1 to 65535/],
    ['statuses', { resolver, retry: { statuses: [503] } }, /options has no option "retry.statuses": that is for HTTP/],
    ['methods', { resolver, retry: { methods: ['POST'] } }, /options has no option "retry.methods": that is for HTTP/],
    ['a name with a slip', { resolver, passwrd: SECRET }, /options has no option "passwrd"/],
    [
      'a socket file',
      { resolver, socketPath: '/run/mysqld.sock' },
      /no option "socketPath": a Service has no socket file/,
    ],
    ['a stream', { resolver, stream: () => {} }, /no option "stream"/],
    ['a URI', { uri: `mysql://app:${SECRET}@mysql.shop/shop` }, /no option "uri": give host/],
    [
      'a URI for options',
      `mysql://app:${SECRET}@mysql.shop/shop` as never,
      /options must be an object, got "mysql:\/\/…@mysql/,
    ],
    ['a URI for a target', { target: `mysql://app:${SECRET}@mysql.shop:3306/shop` }, /target must be .*it is a URL/],
    ['a URI for a host', { host: `mysql://app:${SECRET}@mysql.shop` }, /target must be .*it is a URL/],
    ['a URI for services', { services: `mysql://app:${SECRET}@mysql.shop` }, /services must be an object/],
    ['a user beside the host', { target: `app:${SECRET}/@mysql.shop:3306` }, /got "…@mysql\.shop:3306"/],
    ['a key for TLS', { resolver, host: 'mysql.shop', ssl: `KEY ${SECRET}` }, /ssl must be TLS settings/],
    ['services that are null', { services: null }, /services must be an object, got null/],
    [
      'a password that is none',
      { resolver, password: { value: SECRET } },
      /password must be a string, or a function that returns one, got object/,
    ],
    ['no connections', { resolver, connectionLimit: 0 }, /connectionLimit must be/],
    ['a time that is none', { resolver, queryTimeoutMs: '5s' }, /queryTimeoutMs must be/],
    ['waiting said twice', { resolver, queueLimit: 5, maxWaiting: 5 }, /are the same: give one/],
    ['connecting said twice', { resolver, connectTimeout: 5, pool: { connectTimeoutMs: 5 } }, /are the same: give one/],
    ['stages that are none', { resolver, role: 'primary', stages: 5 }, /stages must be a list of stages/],
    ['a pool that is none', { resolver, pool: { size: 5 } }, /pool has no option "size"/],
    ['a profile nobody knows', { resolver, host: 'mysql.shop', ssl: 'Best Cloud' }, /ssl must be/],
    ['TLS that is none', { resolver, host: 'mysql.shop', ssl: 7 }, /ssl must be/],
    ['TLS without a name', { resolver, ssl: {} }, /ssl needs `host`/],
    ['no services', { services: {} }, /services must be at least one service/],
    ['a service without a name', { services: { '': 'a.b:1' } }, /services must be names/],
    ['a service that is none', { services: { primary: 5 } }, /services\.primary must be a target string or an object/],
    [
      'a slip in a service',
      { services: { primary: { resolver, user2: 'x' } } },
      /services\.primary has no option "user2"/,
    ],
    ['a role that it does not know', { resolver, role: 'replica' }, /role must be 'any' or 'primary'/],
    ['no options at all', undefined as never, /options must be an object/],
  ])('%s: a coded error that shows no secret', (_what, options, message) => {
    let error: unknown;
    try {
      createPoolCluster(options as PoolClusterOptions);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toMatchObject({ code: 'EVENKEEL_OPTION', message: expect.stringMatching(message) });
    expect(String((error as Error).message)).not.toContain(SECRET);
    expect(resolver.watchers).toBe(0);
  });

  it('that fail for one service leave no other service running', () => {
    const services = { primary: { resolver }, replica: { resolver, connectionLimit: -1 } };
    expect(() => createPoolCluster({ services })).toThrow(/connectionLimit/);
    expect(resolver.watchers).toBe(0);
  });

  it('are not changed', async () => {
    const ssl = Object.freeze({ ca: 'PEM' });
    const options = Object.freeze({ resolver, user: 'app', host: 'mysql.shop', ssl });
    const cluster = createPoolCluster(options);
    expect(resolver.watchers).toBe(1);
    await cluster.end();
    await cluster.end();
    expect(resolver.watchers).toBe(0);
  });

  it('of mysql2 are accepted under their names in mysql2', async () => {
    const cluster = createPoolCluster({
      resolver,
      user: 'app',
      connectTimeout: 5_000,
      queueLimit: 0,
      waitForConnections: true,
      charset: 'utf8mb4',
      namedPlaceholders: true,
      dateStrings: ['DATE'],
      enableKeepAlive: true,
      keepAliveInitialDelay: 1_000,
    });
    await cluster.end();
  });
});

describe('the host of a target', () => {
  it.each([
    ['mysql-read.shop:3306', 'mysql-read.shop'],
    ['mysql-read.shop.svc.cluster.local.:3306', 'mysql-read.shop.svc.cluster.local'],
    ['kubernetes:mysql.shop:mysql', 'mysql.shop'],
    ['dns:mysql-0.mysql.shop.svc.cluster.local:3306', 'mysql-0.mysql.shop.svc.cluster.local'],
    ['static:10.0.0.1:3306,10.0.0.2:3306', undefined],
    ['[::1]:3306', '::1'],
    ['10.0.0.1:3306', '10.0.0.1'],
    ['dns:53', 'dns'],
  ])('%s is %s', (target, host) => {
    expect(hostOf(target)).toBe(host);
  });

  it('and a port make a target', () => {
    expect(targetOf('mysql.shop', 3306)).toBe('mysql.shop:3306');
    expect(targetOf('::1', 3307)).toBe('[::1]:3307');
  });
});
