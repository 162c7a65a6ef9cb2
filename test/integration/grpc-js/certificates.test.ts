import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type ChannelCredentials,
  experimental,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type sendUnaryData,
} from '@grpc/grpc-js';
import { staticEndpoints } from 'evenkeel';
import { FakeClock } from 'evenkeel/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { until } from '../../support/until.js';
import { Echo, type Orders, ordersClient, say, type Words } from './support/client.js';

const authority = createCertificate({ commonName: 'authority' });
const serving = createCertificate({ commonName: 'orders', hosts: ['orders.shop'], issuer: authority });

interface Identity {
  readonly cert: string;
  readonly key: string;
}
const identity = (commonName: string): Identity => createCertificate({ commonName, issuer: authority });

/** Where a client's certificate comes from, and what changes it. */
interface Source {
  readonly credentials: ChannelCredentials;
  renew(to: Identity): Promise<void>;
}

let folder: string;
let server: Server;
let port: number;
let orders: Orders;
const clock = new FakeClock();

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'evenkeel-certificates-'));
  server = new Server();
  server.addService(Echo.service as never, {
    // The name in the certificate the server was shown.
    say: (call: ServerUnaryCall<unknown, Partial<Words>>, answer: sendUnaryData<Partial<Words>>) =>
      answer(null, { text: String(call.getAuthContext().sslPeerCertificate?.subject.CN) }),
    ...Object.fromEntries(['count', 'add', 'chat', 'watch'].map((method) => [method, () => {}])),
  });
  const pair = { cert_chain: Buffer.from(serving.cert), private_key: Buffer.from(serving.key) };
  const own = ServerCredentials.createSsl(Buffer.from(authority.cert), [pair], true);
  port = await new Promise((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', own, (error, bound) => (error === null ? resolve(bound) : reject(error))),
  );
});
afterEach(async () => {
  orders.client.close();
  server.forceShutdown();
  await rm(folder, { recursive: true });
});

const sources: Readonly<Record<string, (first: Identity) => Promise<Source>>> = {
  'files that are watched': async (first) => {
    const file = (name: string): string => join(folder, 'data', name);
    let version = 0;
    // As kubelet does: all of a Secret's files change at once, since the link to their folder is replaced.
    const write = async ({ cert, key }: Identity): Promise<void> => {
      const next = join(folder, `version-${++version}`);
      await mkdir(next);
      await writeFile(join(next, 'tls.crt'), cert);
      await writeFile(join(next, 'tls.key'), key);
      await writeFile(join(next, 'ca.crt'), authority.cert);
      await symlink(next, join(folder, 'next'));
      await rename(join(folder, 'next'), join(folder, 'data'));
    };
    await write(first);
    const provider = new experimental.FileWatcherCertificateProvider({
      caCertificateFile: file('ca.crt'),
      certificateFile: file('tls.crt'),
      privateKeyFile: file('tls.key'),
      refreshIntervalMs: 20,
    });
    return { credentials: experimental.createCertificateProviderChannelCredentials(provider, provider), renew: write };
  },
  'an object of the application': async (first) => {
    const told = (of: Identity): experimental.IdentityCertificateUpdate => ({
      certificate: Buffer.from(of.cert),
      privateKey: Buffer.from(of.key),
    });
    let current = told(first);
    const listeners = new Set<experimental.IdentityCertificateUpdateListener>();
    const provider: experimental.CertificateProvider = {
      addCaCertificateListener: (listener) =>
        process.nextTick(listener, { caCertificate: Buffer.from(authority.cert) }),
      removeCaCertificateListener: () => {},
      addIdentityCertificateListener: (listener) => {
        listeners.add(listener);
        process.nextTick(listener, current);
      },
      removeIdentityCertificateListener: (listener) => listeners.delete(listener),
    };
    return {
      credentials: experimental.createCertificateProviderChannelCredentials(provider, provider),
      renew: async (to) => {
        current = told(to);
        for (const listener of listeners) listener(current);
      },
    };
  },
};

describe.each(Object.entries(sources))('a client certificate that comes from %s', (_what, make) => {
  it('is renewed with the connection: open connections keep the old one until their maximum age, new ones use the new one', async () => {
    const { credentials, renew } = await make(identity('first'));
    orders = ordersClient({ resolver: staticEndpoints([{ address: '127.0.0.1', port }]), clock }, credentials);
    expect((await say(orders.client)).text).toBe('first');
    await renew(identity('second'));
    for (let round = 0; round < 5; round++) expect((await say(orders.client)).text).toBe('first');
    // The default, and what chance may add.
    await until('the connection was replaced', async () => {
      await clock.advanceAsync(45 * 60_000);
      return (await say(orders.client)).text === 'second';
    });
  });

  it('is the renewed one after the server ended the connection', async () => {
    const { credentials, renew } = await make(identity('first'));
    orders = ordersClient({ resolver: staticEndpoints([{ address: '127.0.0.1', port }]), clock }, credentials);
    expect((await say(orders.client)).text).toBe('first');
    await renew(identity('second'));
    await until('a new connection shows it', async () => {
      server.drain(`127.0.0.1:${port}`, 0);
      await clock.advanceAsync(3_000);
      return (await say(orders.client)).text === 'second';
    });
  });
});
