import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { KubeConfig } from '@kubernetes/client-node';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ApiSession } from '../../../../../src/resolver/kubernetes/api/api-access.js';
import { CredentialFile } from '../../../../../src/resolver/kubernetes/api/credential-file.js';
import { type ApiCredentials, explicitAccess } from '../../../../../src/resolver/kubernetes/api/explicit-access.js';
import {
  inClusterAccess,
  inClusterAvailable,
  inClusterNamespace,
} from '../../../../../src/resolver/kubernetes/api/in-cluster.js';
import { type KubeConfigLike, kubeConfigAccess } from '../../../../../src/resolver/kubernetes/api/kube-config.js';
import { FakeClock } from '../../../../../src/testing/fake-clock.js';

let directory: string;
const clock = new FakeClock();

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'evenkeel-credentials-'));
});

afterEach(async () => {
  await rm(directory, { recursive: true });
});

const write = (name: string, text: string): Promise<void> => writeFile(join(directory, name), text);
const env = { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' };

describe('CredentialFile (W14)', () => {
  it('is read again when 10 of its 60 seconds are left', async () => {
    await write('token', 'one\n');
    const file = new CredentialFile(join(directory, 'token'), clock);
    expect(await file.read()).toBe('one');
    await write('token', 'two');
    clock.advance(49_999);
    expect(await file.read()).toBe('one');
    clock.advance(1);
    expect(await file.read()).toBe('two');
  });

  it('that cannot be read, or is empty, leaves the old value in use', async () => {
    await write('token', 'one');
    const file = new CredentialFile(join(directory, 'token'), clock);
    await file.read();
    await write('token', ' \n');
    clock.advance(60_000);
    expect(await file.read()).toBe('one');
    await rm(join(directory, 'token'));
    clock.advance(60_000);
    expect(await file.read()).toBe('one');
    await write('token', 'two');
    expect(await file.read()).toBe('two');
  });

  it('that never existed is an error', async () => {
    await expect(new CredentialFile(join(directory, 'none'), clock).read()).rejects.toThrow(/none/);
  });

  it('drops a value that is older than the refused request, and no newer one', async () => {
    await write('token', 'one');
    const file = new CredentialFile(join(directory, 'token'), clock);
    await file.read();
    await write('token', 'two');
    file.expire(clock.now() - 1);
    expect(await file.read()).toBe('one');
    file.expire(clock.now());
    expect(await file.read()).toBe('two');
  });
});

describe('in-cluster access (W14)', () => {
  it('uses server, token and authority from environment and files', async () => {
    await Promise.all([write('token', 'secret\n'), write('ca.crt', 'PEM'), write('namespace', 'shop\n')]);
    const session = inClusterAccess({ path: directory, env }).open(clock);
    expect(await session.target()).toMatchObject({
      server: 'https://10.96.0.1:443',
      headers: { authorization: 'Bearer secret' },
      tls: { ca: 'PEM' },
    });
    expect(await session.namespace()).toBe('shop');
    expect(await inClusterNamespace({ path: directory })).toBe('shop');
  });

  it('writes IPv6 hosts in brackets', async () => {
    await Promise.all([write('token', 'secret'), write('ca.crt', 'PEM')]);
    const session = inClusterAccess({ path: directory, env: { ...env, KUBERNETES_SERVICE_HOST: 'fd00::1' } }).open(
      clock,
    );
    expect((await session.target()).server).toBe('https://[fd00::1]:443');
  });

  it('names what is missing', async () => {
    await expect(inClusterAccess({ path: directory, env: {} }).open(clock).target()).rejects.toMatchObject({
      code: 'EVENKEEL_RESOLVE',
      permanent: true,
      message: expect.stringContaining('KUBERNETES_SERVICE_HOST'),
    });
    await expect(inClusterAccess({ path: directory, env }).open(clock).target()).rejects.toMatchObject({
      permanent: false,
      message: expect.stringContaining(directory),
    });
  });

  it('inClusterAvailable needs address and token', async () => {
    expect(await inClusterAvailable({ path: directory, env })).toBe(false);
    await write('token', '\n');
    expect(await inClusterAvailable({ path: directory, env })).toBe(false);
    await write('token', 'secret');
    expect(await inClusterAvailable({ path: directory, env })).toBe(true);
    expect(await inClusterAvailable({ path: directory, env: {} })).toBe(false);
  });
});

describe('explicit access', () => {
  it('accepts strings, files and functions', async () => {
    await Promise.all([write('token', 'from-file'), write('ca', 'CA')]);
    const target = (credentials: ApiCredentials): Promise<unknown> =>
      explicitAccess('https://api.example:6443/', credentials).open(clock).target();
    expect(await target({})).toMatchObject({ server: 'https://api.example:6443', headers: {} });
    expect(await target({ token: 'a', cert: 'C', key: 'K', serverName: 'kubernetes' })).toMatchObject({
      headers: { authorization: 'Bearer a' },
      tls: { cert: 'C', key: 'K', servername: 'kubernetes' },
    });
    expect(await target({ tokenFile: join(directory, 'token'), caFile: join(directory, 'ca') })).toMatchObject({
      headers: { authorization: 'Bearer from-file' },
      tls: { ca: 'CA' },
    });
    expect(await target({ token: async () => 'fresh' })).toMatchObject({ headers: { authorization: 'Bearer fresh' } });
  });

  it('keeps the credentials as they were given, even if the object is changed later', async () => {
    const credentials: { token: string } = { token: 'first' };
    const access = explicitAccess('https://api.example:6443', credentials);
    credentials.token = 'second';
    expect(await access.open(clock).target()).toMatchObject({ headers: { authorization: 'Bearer first' } });
  });

  it('allows a token over plain HTTP only on loopback', () => {
    for (const server of ['http://10.0.0.1:80', 'http://api.example']) {
      expect(() => explicitAccess(server, { token: 'x' })).toThrow(/https/);
      expect(() => explicitAccess(server)).not.toThrow();
    }
    for (const server of ['http://127.0.0.1:8001', 'http://localhost:8001', 'http://[::1]:8001']) {
      expect(() => explicitAccess(server, { token: 'x' })).not.toThrow();
    }
  });

  it('is shared by equal credentials only, and its key holds no secret', () => {
    const key = (credentials: ApiCredentials): string => explicitAccess('https://api:6443', credentials).key;
    expect(key({ token: 'hunter2' })).toBe(key({ token: 'hunter2' }));
    expect(key({ token: 'hunter2' })).not.toBe(key({ token: 'hunter3' }));
    expect(key({ token: 'hunter2' })).not.toContain('hunter2');
    const token = (): string => 'x';
    expect(key({ token })).toBe(key({ token }));
    expect(key({ token })).not.toBe(key({ token: () => 'x' }));
  });

  it.each([
    ['ftp://api', {}],
    ['api.example', {}],
    ['https://user:pw@api', {}],
    ['https://api', { token: '' }],
    ['https://api', { token: 'a', tokenFile: 'b' }],
    ['https://api', { password: 'a' }],
  ])('refuses %s with %j', (server, credentials) => {
    expect(() => explicitAccess(server, credentials as ApiCredentials)).toThrow(
      expect.objectContaining({ code: 'EVENKEEL_OPTION' }),
    );
  });
});

describe('kubeconfig access', () => {
  it('reads a loaded KubeConfig before every request', async () => {
    let token = 'one';
    const config: KubeConfigLike = {
      getCurrentCluster: () => ({ server: 'https://api:6443/' }),
      async applyToHTTPSOptions(options) {
        Object.assign(options, {
          headers: { Authorization: `Bearer ${token}` },
          ca: Buffer.from('CA'),
          agent: {},
          rejectUnauthorized: true,
        });
      },
      getCurrentContext: () => 'dev',
      getContextObject: (name) => (name === 'dev' ? { namespace: 'shop' } : null),
    };
    const access = kubeConfigAccess(config);
    expect(kubeConfigAccess(config).key).toBe(access.key);
    const session = access.open(clock);
    expect(await session.target()).toEqual({
      server: 'https://api:6443',
      headers: { authorization: 'Bearer one' },
      tls: { ca: 'CA', cert: undefined, key: undefined, passphrase: undefined, servername: undefined },
    });
    token = 'two';
    expect((await session.target()).headers.authorization).toBe('Bearer two');
    expect(await session.namespace()).toBe('shop');
  });

  it('keeps a proxy, and switches verification off only where the kubeconfig does', async () => {
    class HttpsProxyAgent {}
    const config: KubeConfigLike = {
      getCurrentCluster: () => ({ server: 'https://api' }),
      async applyToHTTPSOptions(options) {
        Object.assign(options, { agent: new HttpsProxyAgent(), rejectUnauthorized: false, auth: 'me:pw' });
      },
    };
    const target = await kubeConfigAccess(config).open(clock).target();
    expect(target.agent).toBeInstanceOf(HttpsProxyAgent);
    expect(target.tls.rejectUnauthorized).toBe(false);
    expect(target.headers.authorization).toBe(`Basic ${Buffer.from('me:pw').toString('base64')}`);
  });

  const configText = (user: object | undefined, server = 'https://api:6443'): string =>
    JSON.stringify({
      'current-context': 'dev',
      clusters: [{ name: 'c', cluster: { server } }],
      users: [{ name: 'me', ...(user && { user }) }],
      contexts: [{ name: 'dev', context: { cluster: 'c', user: 'me' } }],
    });
  const sessionOf = (user: object | undefined, server?: string): ApiSession => {
    const config = new KubeConfig();
    config.loadFromString(configText(user, server));
    return kubeConfigAccess(config as unknown as KubeConfigLike).open(clock);
  };

  it('turns a password in the server URL into a header, and shows it in no message', async () => {
    const session = sessionOf(undefined, 'https://us%40er:hunt%3Aer2@api:6443/base/');
    expect(await session.target()).toMatchObject({
      server: 'https://api:6443/base',
      headers: { authorization: `Basic ${Buffer.from('us@er:hunt:er2').toString('base64')}` },
    });
    const both = sessionOf({ token: 'mine' }, 'https://user:hunter2@api');
    expect(await both.target()).toMatchObject({ server: 'https://api', headers: { authorization: 'Bearer mine' } });
    for (const server of ['https://user:hunter2@a b', 'ftp://user:hunter2@api', 'https://api/?token=hunter2']) {
      const error: unknown = await sessionOf(undefined, server)
        .target()
        .catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'EVENKEEL_RESOLVE', permanent: true });
      expect(inspect(error, { depth: 9 })).not.toContain('hunter2');
    }
  });

  it('fails over https for a user without known credentials, rather than use system:anonymous', async () => {
    for (const user of [{ tokenFile: join(directory, 'token') }, { tokenFiel: 'hunter2' }, { as: 'admin' }, {}]) {
      const error: unknown = await sessionOf(user)
        .target()
        .catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ permanent: true, message: expect.stringContaining('tokenFile') });
      expect(inspect(error, { depth: 9 })).not.toContain('hunter2');
    }
    const nobody: KubeConfigLike = {
      getCurrentCluster: () => ({ server: 'https://api' }),
      async applyToHTTPSOptions() {},
      getCurrentUser: () => null,
    };
    expect((await kubeConfigAccess(nobody).open(clock).target()).headers).toEqual({});
  });

  it.each([null, 'config', { path: 'config' }, {}])('refuses %j, which is no loaded KubeConfig', (kubeConfig) => {
    expect(() => kubeConfigAccess(kubeConfig as never)).toThrow(
      expect.objectContaining({ code: 'EVENKEEL_OPTION', message: expect.stringContaining('a loaded KubeConfig') }),
    );
  });
});
