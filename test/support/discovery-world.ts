import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ObserverEvents } from '../../src/observe/observer.js';
import type { Resolution } from '../../src/resolver/resolver.js';
import { resolverFrom, type TargetOptions } from '../../src/resolver/target.js';
import { FakeClock } from '../../src/testing/fake-clock.js';
import { type ApiServer, createApiServer } from '../../src/testing/servers/api-server.js';
import type { Grant } from '../../src/testing/servers/api-server-access.js';
import { createDnsServer, type DnsServer } from '../../src/testing/servers/dns-server.js';
import { freePort } from './free-port.js';
import { RecordingListener } from './recording-listener.js';

const token = 'pod-token';
/** What the manifest in the docs grants. */
export const reader: readonly Grant[] = [
  { namespace: 'shop', verbs: ['list', 'watch'], resources: ['endpointslices'] },
  { namespace: 'shop', verbs: ['get'], resources: ['services'] },
];

/** An API server over TLS, a DNS server, and the files and environment of a pod in namespace `web`. */
export class DiscoveryWorld implements AsyncDisposable {
  readonly api: ApiServer;
  readonly dns: DnsServer;
  /** Where the service account is mounted. */
  readonly folder: string;

  private constructor(api: ApiServer, dns: DnsServer, folder: string) {
    this.api = api;
    this.dns = dns;
    this.folder = folder;
  }

  static async create(): Promise<DiscoveryWorld> {
    const api = await createApiServer({ port: await freePort(), tls: true, tokens: { [token]: reader } });
    const dns = await createDnsServer({ port: await freePort() });
    for (const namespace of ['shop', 'web']) dns.kubernetes.namespaces.add(namespace);
    const folder = await mkdtemp(join(tmpdir(), 'evenkeel-pod-'));
    await writeFile(join(folder, 'token'), token);
    await writeFile(join(folder, 'ca.crt'), api.ca ?? '');
    await writeFile(join(folder, 'namespace'), 'web');
    await writeFile(join(folder, 'resolv.conf'), 'search web.svc.cluster.local svc.cluster.local cluster.local\n');
    return new DiscoveryWorld(api, dns, folder);
  }

  /** Sets permissions. */
  allow(grants: readonly Grant[]): void {
    this.api.setTokens({ [token]: grants });
  }

  /** The options that make a process see the world like a process in this pod. */
  options(more: Partial<TargetOptions> = {}): TargetOptions {
    return {
      kubernetes: {
        inCluster: {
          path: this.folder,
          env: { KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: String(this.api.port) },
        },
      },
      dns: {
        servers: [this.dns.address],
        timeoutMs: 1_000,
        tries: 1,
        clusterFiles: {
          resolvConfPath: join(this.folder, 'resolv.conf'),
          namespacePath: join(this.folder, 'namespace'),
        },
      },
      ...more,
    };
  }

  watch(target: string, more: Partial<TargetOptions> = {}): DiscoveryWatch {
    return new DiscoveryWatch(target, this.options(more));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.api.close();
    await this.dns.close();
    await rm(this.folder, { recursive: true });
  }
}

/** A plain target watched over real servers, with its own clock. */
export class DiscoveryWatch {
  readonly clock: FakeClock = new FakeClock(0);
  readonly listener: RecordingListener = new RecordingListener();
  readonly modes: ObserverEvents['discoveryChanged'][] = [];
  readonly #resolution: Resolution;

  constructor(target: string, options: TargetOptions) {
    this.#resolution = resolverFrom(target, options).watch(this.listener, {
      clock: this.clock,
      rng: { next: () => 0.5 },
      observer: { discoveryChanged: (event) => this.modes.push(event) },
    });
  }

  /** Addresses in the last set. */
  get addresses(): string | undefined {
    return this.listener.endpoints?.map(({ address, port }) => `${address}:${port}`).join(' ');
  }

  get mode(): string | undefined {
    return this.modes.at(-1)?.mode;
  }

  /** Lets time pass, a little faster than real time, until `condition` holds. */
  async until(what: string, condition: () => boolean, stepMs = 20): Promise<void> {
    const end = performance.now() + 30_000;
    while (!condition()) {
      if (performance.now() > end) {
        throw new Error(`not reached: ${what}; modes ${this.modes.map(({ mode }) => mode)}; ${this.listener.events}`);
      }
      this.clock.advance(stepMs);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }

  close(): void {
    this.#resolution.close();
  }
}
