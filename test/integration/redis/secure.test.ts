import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { staticEndpoints } from 'evenkeel';
import { createReplicas, type Replicas, type ReplicasOptions } from 'evenkeel/redis';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { noRedis, type RedisServer, type RedisWorld, startRedis, titled } from '../../support/databases/redis.js';
import { freePort } from '../../support/programs/free-port.js';
import { until } from '../../support/until.js';

const authority = createCertificate({ commonName: 'evenkeel test authority', hosts: [] });
const ofPrimary = createCertificate({ commonName: 'primary', hosts: ['redis.shop'], issuer: authority });
const ofReplica = createCertificate({ commonName: 'replica', hosts: ['redis-replicas.shop'], issuer: authority });

interface Client {
  get(key: string): Promise<string | null>;
}

describe.skipIf(noRedis)(titled('Redis replicas with TLS and users'), () => {
  let world: RedisWorld;
  let folder: string;
  const tlsPorts = new Map<RedisServer, number>();
  const closing: (() => unknown)[] = [];

  const serveTls = async (server: RedisServer, { key, cert }: typeof authority): Promise<void> => {
    const port = await freePort();
    const file = async (name: string, text: string): Promise<string> => {
      const path = join(folder, `${server.name}-${name}`);
      await writeFile(path, text);
      return path;
    };
    const files = {
      'tls-cert-file': await file('cert', cert),
      'tls-key-file': await file('key', key),
      'tls-ca-cert-file': await file('ca', authority.cert),
    };
    await server.command('CONFIG', 'SET', ...Object.entries(files).flat(), 'tls-auth-clients', 'no');
    await server.command('CONFIG', 'SET', 'tls-port', String(port));
    tlsPorts.set(server, port);
  };
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'evenkeel-redis-tls-'));
    world = await startRedis(1, { password: 'secret' });
    await serveTls(world.at(0), ofPrimary);
    await serveTls(world.at(1), ofReplica);
    await world.at(0).command('SET', 'item', 'seven');
    await until('it is replicated', async () => (await world.at(1).command('GET', 'item')) === 'seven');
  });
  afterAll(async () => {
    await world?.close();
    await rm(folder, { recursive: true, force: true });
  });
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
    for (const server of world.all) await until('nothing is left open', async () => (await server.connections()) === 0);
  });

  const IMPATIENT = { waitTimeoutMs: 1_000 };
  const refused = ({ balancer }: Replicas<object>): Promise<void> =>
    until('no connection was to be had', () => balancer.snapshot().endpoints[0]?.state === 'backoff');

  type Open = (options: ReplicasOptions, how?: { tls?: boolean; target?: string }) => Promise<Replicas<object>>;
  const optionsOf = (options: ReplicasOptions, tls: boolean): ReplicasOptions => {
    const { address, port } = world.at(1).endpoint;
    const resolver = staticEndpoints([{ address, port: tls ? (tlsPorts.get(world.at(1)) as number) : port }]);
    return { resolver, role: 'replica', waitTimeoutMs: 120_000, ...options };
  };
  const withIoredis: Open = async (options, { tls = false, target = 'redis-replicas.shop:6379' } = {}) => {
    const primary = new Redis({
      port: tls ? (tlsPorts.get(world.at(0)) as number) : world.at(0).port,
      password: 'secret',
      ...(tls && { tls: { ca: authority.cert, checkServerIdentity: undefined } }),
      ...(tls && { host: '127.0.0.1' }),
      lazyConnect: true,
    });
    primary.on('error', () => {});
    const replicas = createReplicas(primary, target, optionsOf(options, tls));
    closing.push(() => replicas.close().then(() => primary.disconnect()));
    return replicas;
  };
  const withNodeRedis: Open = async (options, { tls = false, target = 'redis-replicas.shop:6379' } = {}) => {
    const socket = tls ? { tls: true as const, ca: authority.cert } : {};
    const primary = createClient({ password: 'secret', socket: { ...socket, port: world.at(0).port } });
    primary.on('error', () => {});
    const replicas = createReplicas(primary, target, optionsOf(options, tls));
    closing.push(() => replicas.close());
    return replicas;
  };

  describe.each([
    ['ioredis', withIoredis],
    ['node-redis', withNodeRedis],
  ])('%s', (_library, open) => {
    const read = async (replicas: Replicas<object>): Promise<unknown> => (replicas.client as Client).get('item');

    it("dials the pod and checks the Service's name", async () => {
      expect(await read(await open({}, { tls: true }))).toBe('seven');
      const elsewhere = await open(IMPATIENT, { tls: true, target: 'other.shop:6379' });
      await refused(elsewhere);
      await expect(read(elsewhere)).rejects.toMatchObject({ message: expect.stringContaining('other.shop') });
    });

    it('refuses a certificate of an unknown authority', async () => {
      const tls = { tls: { ca: ofReplica.cert }, socket: { ca: ofReplica.cert } };
      const replicas = await open({ clientOptions: tls, ...IMPATIENT }, { tls: true });
      await refused(replicas);
      await expect(read(replicas)).rejects.toMatchObject({ message: expect.stringMatching(/certificate/) });
    });

    it('logs in to replicas as another user, who needs no right to run INFO', async () => {
      await world.at(1).command('ACL', 'SETUSER', 'reader', 'on', '>pw', '~*', '+get');
      const warnings: string[] = [];
      const clientOptions = { username: 'reader', password: 'pw', enableReadyCheck: false };
      const observer = { warned: ({ message }: { message: string }) => warnings.push(message) };
      const replicas = await open({ clientOptions, observer });
      expect(await read(replicas)).toBe('seven');
      expect(await world.at(1).command('CLIENT', 'LIST')).toContain('user=reader');
      expect(warnings).toEqual([expect.stringContaining('INFO')]);
      // What the user may not read is the caller's to know.
      const other = (replicas.client as unknown as { ttl(key: string): Promise<number> }).ttl('item');
      await expect(other).rejects.toThrow('NOPERM');
    });

    it('reads the password for each new connection', async () => {
      const set = (password: string): Promise<unknown> =>
        world.at(1).command('ACL', 'SETUSER', 'turner', 'on', 'resetpass', `>${password}`, '~*', '+@all');
      let password = 'first';
      let asked = 0;
      await set(password);
      const clientOptions = async () => {
        asked++;
        return { username: 'turner', password };
      };
      const replicas = await open({ clientOptions });
      expect(await read(replicas)).toBe('seven');
      password = 'second';
      await set(password);
      await world.at(1).command('CLIENT', 'KILL', 'USER', 'turner');
      await until('it is asked again', () => asked > 1);
      expect(await read(replicas)).toBe('seven');
    });

    it('reports that a password function failed, or a password is wrong', async () => {
      const failing = await open({ clientOptions: () => Promise.reject(new Error('no vault')), ...IMPATIENT });
      await refused(failing);
      await expect(read(failing)).rejects.toThrow('no vault');
      const wrong = await open({ clientOptions: () => ({ password: 'wrong' }), ...IMPATIENT });
      await refused(wrong);
      await expect(read(wrong)).rejects.toThrow('WRONGPASS');
    });
  });
});
