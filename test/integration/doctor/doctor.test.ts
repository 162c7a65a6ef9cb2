import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createSecureServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import type { Readable } from 'node:stream';
import { createServer as createTlsServer } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { createCertificate, type ServiceController } from '../../servers/index.js';
import { DiscoveryWorld, reader } from '../../support/fixtures/discovery-world.js';
import { LoopbackPods } from '../../support/pods/loopback-pods.js';
import {
  asInDocs,
  type DoctorRun,
  environmentOf,
  RunningDoctor,
  runDoctor,
  runHere,
  startDoctor,
} from '../../support/programs/doctor.js';
import { freePort } from '../../support/programs/free-port.js';
import { until } from '../../support/until.js';

/** The guide, and the other reports, which show what the program prints. */
const pages = ['../../../docs/guide/doctor.md', './reports.txt'].map((file) =>
  fileURLToPath(new URL(file, import.meta.url)),
);
/** Set to write what the program prints now into the pages, in place of comparing. */
const rewrite = process.env.UPDATE_DOCS === '1';

const register = fileURLToPath(new URL('../../../dist/register/register.cjs', import.meta.url));
const appWithOwnAgent = fileURLToPath(new URL('support/own-agent.cjs', import.meta.url));

let docs: string[];
let world: DiscoveryWorld;
let pods: LoopbackPods;

beforeAll(async () => {
  docs = await Promise.all(pages.map((page) => readFile(page, 'utf8')));
});
afterAll(async () => {
  if (rewrite) await Promise.all(pages.map((page, index) => writeFile(page, docs[index] as string)));
});
beforeEach(async () => {
  [world, pods] = await Promise.all([DiscoveryWorld.create(), LoopbackPods.start(3)]);
  for (const [name, value] of Object.entries(environmentOf(world))) vi.stubEnv(name, value);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await world[Symbol.asyncDispose]();
  await pods[Symbol.asyncDispose]();
});

/** A Service as API server and DNS both show it; the pods listen on `pods.port`. */
function service(kind: 'headless' | 'cluster-ip', ready: readonly boolean[] = [true, true, true]): ServiceController {
  const controller = world.api.service('shop', 'orders', {
    ports: [{ name: 'http', port: kind === 'headless' ? pods.port : 80, targetPort: pods.port }],
  });
  const object = world.api.services.get('orders', 'shop');
  if (object !== undefined) {
    const clusterIP = kind === 'headless' ? 'None' : '127.0.0.77';
    world.api.services.put({ ...object, spec: { ...object.spec, clusterIP } });
  }
  controller.setPods(
    ready.map((isReady, index) => ({
      name: `orders-${index}`,
      address: pods.addresses[index] as string,
      ready: isReady,
      zone: 'abc'[index] as string,
    })),
  );
  const shown = ready.map((isReady, index) => ({ address: pods.addresses[index] as string, ready: isReady }));
  const common = { namespace: 'shop', name: 'orders', pods: shown };
  if (kind === 'headless') world.dns.kubernetes.set({ ...common, ports: [{ name: 'http', port: pods.port }] });
  else world.dns.kubernetes.set({ ...common, clusterIPs: ['127.0.0.77'], ports: [{ name: 'http', port: 80 }] });
  return controller;
}

/** In this process. As a program: its exit codes 0, 1 and 2, what it needs signals for, and --help. */
const run = (target: string, ...more: readonly string[]): Promise<DoctorRun> => runDoctor(world, target, more);
const runProgram = (target: string, ...more: readonly string[]): Promise<DoctorRun> =>
  startDoctor(world, target, more).ended;

/** Compares with the block under `<!-- doctor: name -->` in one of the pages. */
function matchesDocs(name: string, { stdout, stderr }: DoctorRun): void {
  expect(stderr).toBe('');
  const shown = asInDocs(stdout, world, pods).trimEnd();
  const block = new RegExp(`(<!-- doctor: ${name} -->\n\n\`\`\`text\n)([\\s\\S]*?)(\n\`\`\`\n)`);
  const found = block.exec(docs.join('\n'));
  if (found === null) throw new Error(`no page has a block "${name}"`);
  if (rewrite)
    docs = docs.map((text) => text.replace(block, (_all, before, _old, after) => `${before}${shown}${after}`));
  else expect(shown).toBe(found[2]);
}

describe('evenkeel doctor', () => {
  it('exits with 0 when all is well', async () => {
    service('cluster-ip');
    const result = await runProgram('orders.shop:http');
    expect(result.code).toBe(0);
    matchesDocs('fine', result);
  });

  it('an app whose clients register does not balance: 1, with the code to write', async () => {
    service('cluster-ip');
    const adminPort = await freePort();
    const app = spawn(process.execPath, ['--require', register, appWithOwnAgent], {
      env: {
        ...process.env,
        NODE_OPTIONS: '',
        KUBERNETES_SERVICE_HOST: '127.0.0.1',
        KUBERNETES_SERVICE_PORT: '',
        EVENKEEL_ADMIN: String(adminPort),
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(app.stdout as Readable, 'data');
    const result = await run('orders.shop:http', '--admin', `http://127.0.0.1:${adminPort}`);
    app.kill();
    expect(result.code).toBe(1);
    matchesDocs('clients', result);
  });

  it('an https URL whose pods speak HTTP/2: says what fetch does without evenkeel', async () => {
    const certificate = createCertificate({ hosts: ['localhost'] });
    const spoken = new Map<boolean, string>();
    for (const speaksHttp2 of [true, false]) {
      const pod = speaksHttp2 ? createSecureServer(certificate) : createTlsServer(certificate);
      pod.listen(0, '127.0.0.1');
      await once(pod, 'listening');
      const { port } = pod.address() as AddressInfo;
      const { code, stdout, stderr } = await run(`https://127.0.0.1:${port}/`);
      expect([code, stderr]).toEqual([0, '']);
      spoken.set(speaksHttp2, stdout);
      pod.close();
    }
    const [major] = process.versions.node.split('.').map(Number);
    const who =
      (major as number) >= 26
        ? `so does fetch of this Node (${process.versions.node})`
        : 'from Node 26 on so does fetch';
    expect(spoken.get(true)).toContain(`speaks HTTP/2, and ${who}: without evenkeel it stays with one pod`);
    expect(spoken.get(false)).not.toContain('HTTP/2');
  });

  it('an https URL whose pods speak plain HTTP: 2, with what to write', async () => {
    const pod = createServer().listen(0, '127.0.0.1');
    await once(pod, 'listening');
    const { code, stdout } = await run(`https://127.0.0.1:${(pod.address() as AddressInfo).port}/`);
    pod.close();
    expect(code).toBe(2);
    expect(stdout).toContain('It does not work: the target is an https URL, but no endpoint speaks TLS\n');
    expect(stdout).toContain(' does not speak TLS: it answers in another protocol\n');
    expect(stdout).toContain('1. Use an http URL, or the port on which the pods speak TLS.\n');
  });

  it('a pod that speaks TLS but wants a client certificate speaks TLS', async () => {
    const certificate = createCertificate({ hosts: ['localhost'] });
    for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
      const pod = createTlsServer({ ...certificate, maxVersion, requestCert: true, rejectUnauthorized: true });
      pod.listen(0, '127.0.0.1');
      await once(pod, 'listening');
      const { code, stdout } = await run(`https://127.0.0.1:${(pod.address() as AddressInfo).port}/`);
      expect([code, stdout.includes('does not speak TLS')]).toEqual([0, false]);
      pod.close();
    }
  });

  describe('a cluster IP in place of its Service', () => {
    beforeEach(() => {
      service('cluster-ip');
      world.dns.zone.set('77.0.0.127.in-addr.arpa', { ptr: 'orders.shop.svc.cluster.local' });
    });
    const works = 'It works, but: 127.0.0.77 is the cluster IP of orders.shop, where kube-proxy picks a pod once';

    it.each(['127.0.0.77:80', 'static:127.0.0.77:80', 'http://127.0.0.77/'])('%s: 1, with the name', async (target) => {
      const { code, stdout } = await run(target, '--no-connect');
      expect(code).toBe(1);
      expect(stdout).toContain(works);
      expect(stdout).toContain("1. Use the Service's own name: orders.shop:");
    });

    it('through an ExternalName Service: 1, with the name', async () => {
      const externalName = 'orders.shop.svc.cluster.local';
      world.api.services.put({
        metadata: { name: 'alias', namespace: 'shop' },
        spec: { type: 'ExternalName', externalName },
      });
      world.dns.kubernetes.set({ namespace: 'shop', name: 'alias', externalName });
      const { code, stdout } = await run('alias.shop:80', '--no-connect');
      expect(code).toBe(1);
      expect(stdout).toContain(works);
      expect(stdout).toContain("1. Use the Service's own name: orders.shop:80\n");
    });
  });

  it('a pod without the token of its service account: 1, with what to change', async () => {
    service('headless');
    const { code, stdout } = await run(`orders.shop:${pods.port}`, '--service-account', `${world.folder}/none`);
    expect(code).toBe(1);
    expect(stdout).toContain('not asked: this pod has no token of its service account\n');
    expect(stdout).toContain('1. Let this pod have the token of its service account (automountServiceAccountToken');
  });

  it('an admin page that does not answer is one line of the report', async () => {
    service('cluster-ip');
    const { code, stdout } = await run('orders.shop:http', '--admin', `http://127.0.0.1:${await freePort()}`);
    expect(code).toBe(0);
    expect(stdout).toMatch(/warn {2}admin page http:\/\/127.0.0.1:\d+\/: connect ECONNREFUSED/);
  });

  it('no permission, headless Service: 1, with the manifest', async () => {
    world.allow([]);
    service('headless');
    const result = await runProgram('orders.shop:http');
    expect(result.code).toBe(1);
    matchesDocs('no-permission', result);
  });

  it('no permission, cluster IP: 1', async () => {
    world.allow([]);
    service('cluster-ip');
    const result = await run('orders.shop:80', '--no-connect');
    expect(result.code).toBe(1);
    matchesDocs('cluster-ip', result);
  });

  it('one verb missing: 1', async () => {
    world.allow([{ namespace: 'shop', verbs: ['list'], resources: ['endpointslices'] }]);
    service('headless');
    const result = await run('orders.shop:http');
    expect(result.code).toBe(1);
    matchesDocs('no-watch', result);
  });

  it('no such Service: 2', async () => {
    const result = await runProgram('odrers.shop:http');
    expect(result.code).toBe(2);
    matchesDocs('no-service', result);
  });

  it('no pod ready: 2', async () => {
    service('headless', [false, false]);
    const result = await run('orders.shop:http');
    expect(result.code).toBe(2);
    matchesDocs('not-ready', result);
  });

  it('no such port: 2', async () => {
    service('cluster-ip');
    const result = await run('orders.shop:htttp');
    expect(result.code).toBe(2);
    matchesDocs('no-port', result);
  });

  it.each([
    ['with', reader, 'the name "web"'],
    ['without', reader.filter(({ resources }) => !resources.includes('services')), 'that name'],
  ])('a targetPort name that no pod has, %s "get services": 2, with what to change', async (_how, grants, name) => {
    world.allow(grants);
    const ports = [{ name: 'http', port: 80, targetPort: 'web' }];
    world.api.service('shop', 'orders', { ports }).setPods([{ name: 'a', address: '127.0.1.1' }]);
    const { code, stdout } = await run('orders.shop:http');
    expect(code).toBe(2);
    expect(stdout).toContain('It does not work: none of its pods has that port\n');
    expect(stdout).toContain(`1. Give a port of the pods' containers ${name}, or make targetPort a number: `);
  });

  it('a port number the Service does not have: 2, with those it has', async () => {
    service('cluster-ip');
    const { code, stdout } = await run('orders.shop:8081', '--no-connect');
    expect(code).toBe(2);
    expect(stdout).toContain('It does not work: Service shop/orders has no port 8081; it has http 80\n');
    expect(stdout).toContain('Use a port the Service has: http 80');
    expect(stdout).not.toContain('network policy');
  });

  describe('an ExternalName Service', () => {
    function externalName(addresses: readonly string[], name = 'db.example.com'): void {
      world.api.services.put({
        metadata: { name: 'db', namespace: 'shop' },
        spec: { type: 'ExternalName', externalName: name },
      });
      world.dns.kubernetes.set({ namespace: 'shop', name: 'db', externalName: name });
      if (addresses.length > 0) world.dns.zone.set(name, { a: [...addresses] });
    }

    it('is found through DNS, its only way: 0', async () => {
      externalName(['127.0.1.1', '127.0.1.2']);
      for (const target of [`db.shop:${pods.port}`, `dns:db.shop:${pods.port}`]) {
        const { code, stdout } = await run(target);
        expect(code).toBe(0);
        expect(stdout).toContain('All is well: 2 endpoints, found by asking DNS for db.example.com');
        expect(stdout).toContain('another name for db.example.com: an ExternalName Service');
        expect(stdout).not.toMatch(/headless|What to do|selects no pods/);
      }
      const { stdout } = await run(`db.shop:${pods.port}`);
      expect(stdout).toContain('  ok    Service: ExternalName, stands for db.example.com\n');
    });

    it('with one address is not taken for a cluster IP: 0', async () => {
      externalName(['127.0.1.1']);
      const { code, stdout } = await run(`db.shop:${pods.port}`);
      expect(code).toBe(0);
      expect(stdout).not.toMatch(/headless|kube-proxy|What to do/);
    });

    it('without permission to read it: 0', async () => {
      world.allow([]);
      externalName(['127.0.1.1', '127.0.1.2']);
      const { code, stdout } = await run(`db.shop:${pods.port}`);
      expect(code).toBe(0);
      expect(stdout).toContain('another name for db.example.com: an ExternalName Service');
      expect(stdout).not.toMatch(/headless|RoleBinding/);
    });

    it('whose host DNS does not know: 2, with its name and what to change', async () => {
      externalName([], 'gone.example.com');
      for (const grants of [reader, []]) {
        world.allow(grants);
        const { code, stdout } = await run('db.shop:5432', '--no-connect');
        expect(code).toBe(2);
        expect(stdout).toContain(
          'It does not work: db.shop stands for gone.example.com, and DNS has no address for that',
        );
        expect(stdout).toContain('1. Correct spec.externalName: kubectl edit service db -n shop\n');
        expect(stdout).not.toMatch(/headless|RoleBinding|\n {2}2\. /);
      }
    });

    it('asked for by its EndpointSlices: 2, with the target that works', async () => {
      externalName(['127.0.1.1']);
      const { code, stdout } = await run('kubernetes:db.shop:5432', '--no-connect');
      expect(code).toBe(2);
      expect(stdout).toContain('It does not work: db.shop is an ExternalName Service, which has no EndpointSlices');
      expect(stdout).toContain('1. Use the target dns:db.shop:5432\n');
    });

    it('asked for by a port name: 2, with what to write', async () => {
      externalName(['127.0.1.1']);
      const { code, stdout } = await run('db.shop:mysql', '--no-connect');
      expect(code).toBe(2);
      expect(stdout).toContain('Give the port as a number: DNS has no ports by name for db.example.com');
    });
  });

  it.each(['cluster-ip', 'headless'] as const)(
    'a Service (%s) that selects no pods, and has no EndpointSlice: 2',
    async (kind) => {
      const clusterIP = kind === 'headless' ? 'None' : '127.0.0.77';
      world.api.services.put({
        metadata: { name: 'legacy', namespace: 'shop' },
        spec: { type: 'ClusterIP', clusterIP, ports: [{ name: 'http', port: 80 }] },
      });
      const shown = { namespace: 'shop', name: 'legacy', ports: [{ name: 'http', port: 80 }] };
      world.dns.kubernetes.set(kind === 'headless' ? shown : { ...shown, clusterIPs: [clusterIP] });
      const targets = ['legacy.shop:80', 'kubernetes:legacy.shop:http'];
      for (const { code, stdout } of await Promise.all(targets.map((target) => run(target, '--no-connect')))) {
        expect(code).toBe(2);
        expect(stdout).toContain(
          'It does not work: the Service selects no pods, and nobody has written EndpointSlices for it',
        );
        expect(stdout).toContain(
          '1. Give Service shop/legacy a selector, or write EndpointSlices with the label kubernetes.io/service-name: legacy',
        );
        expect(stdout).not.toMatch(/Or make the Service headless|no such Service/);
      }
    },
  );

  it('no such Service, and no permission to read one: 2, with what to check', async () => {
    world.allow(reader.filter(({ resources }) => !resources.includes('services')));
    const readsSlices = await run('odrers.shop:http');
    world.allow([]);
    const readsNothing = await Promise.all([run('odrers.shop:http'), run('dns:odrers.shop:80')]);
    for (const { code, stdout } of [readsSlices, ...readsNothing]) {
      expect(code).toBe(2);
      expect(stdout).toContain('1. Check the name: kubectl get services -n shop\n');
    }
  });

  it('a port that is not TCP: 2, with the TCP ports', async () => {
    const ports = [
      { name: 'dns', port: 53, protocol: 'UDP' },
      { name: 'metrics', port: 9153 },
    ];
    world.api.service('shop', 'names', { ports }).setPods([{ name: 'a', address: '127.0.1.1' }]);
    for (const port of ['dns', '53']) {
      const { code, stdout } = await run(`names.shop:${port}`, '--no-connect');
      expect(code).toBe(2);
      expect(stdout).toContain(`port ${port === '53' ? port : '"dns"'} of the Service is UDP; evenkeel balances TCP`);
      expect(stdout).toContain('ports: dns 53 (UDP), metrics 9153\n');
      expect(stdout).toContain('1. Use a TCP port of the Service: metrics 9153\n');
    }
    world.api.service('shop', 'udp', { ports: ports.slice(0, 1) }).setPods([{ name: 'a', address: '127.0.1.1' }]);
    const runs = await Promise.all(['dns', '53'].map((port) => run(`udp.shop:${port}`, '--no-connect')));
    for (const { code, stdout } of runs) {
      expect(code).toBe(2);
      expect(stdout).toContain('is UDP; evenkeel balances TCP');
      expect(stdout).toContain('1. Give the Service a TCP port: it has dns 53 (UDP)\n');
    }
  });

  it('a namespace that DNS does not know: 2, and no RoleBinding', async () => {
    service('headless');
    const targets = ['orders.shpo:http', 'kubernetes:orders.shpo:http', 'dns:orders.shpo:http'];
    for (const { code, stdout } of await Promise.all(targets.map((target) => run(target)))) {
      expect(code).toBe(2);
      expect(stdout).toContain('It does not work: DNS knows no namespace shpo');
      expect(stdout).toContain('1. Check the namespace: kubectl get namespaces\n');
      expect(stdout).not.toMatch(/RoleBinding|\n {2}2\. /);
    }
  });

  it('a namespace that DNS does not know, where every namespace may be read', async () => {
    world.allow(reader.map((grant) => ({ ...grant, namespace: 'shpo' })));
    const { code, stdout } = await run('orders.shpo:http');
    expect(code).toBe(2);
    expect(stdout).toContain('1. Check the namespace: kubectl get namespaces\n');
  });

  it('a name server outside the cluster proves nothing about namespaces', async () => {
    world.allow([]);
    world.dns.kubernetes.namespaces.clear();
    const { stdout } = await run('orders.shpo:http');
    expect(stdout).toContain('RoleBinding');
    expect(stdout).not.toContain('kubectl get namespaces');
  });

  it('slices that may be listed but not watched are not called watched', async () => {
    world.allow([{ namespace: 'shop', verbs: ['list'], resources: ['endpointslices'] }]);
    service('headless');
    const { stdout } = await run('orders.shop:http', '--no-connect');
    expect(stdout).toContain('  warn  its EndpointSlices are listed from time to time, not watched\n');
    expect(stdout).not.toContain('are watched\n');
  });

  it('shows zone hints', async () => {
    const hinted = world.api.service('shop', 'near', {
      ports: [{ name: 'http', port: 80, targetPort: pods.port }],
      trafficDistribution: 'PreferSameNode',
    });
    const near = (index: number) => ({
      name: `near-${index}`,
      address: pods.addresses[index] as string,
      zone: 'abc'[index] as string,
      nodeName: `node-${index}`,
    });
    hinted.setPods([near(0), near(1)]);
    const all = await run('near.shop:http', '--no-connect');
    expect(all.code).toBe(0);
    expect(all.stdout).toContain('        zone hints on all ready pods (a, b): followed by the stage topologyHints\n');
    expect(all.stdout).toContain(
      '        node hints on all ready pods (node-0, node-1): followed by the stage topologyHints\n',
    );
    hinted.putPod({ name: 'near-2', address: pods.addresses[2] as string });
    const some = await run('near.shop:http', '--no-connect');
    expect(some.stdout).toContain(
      '        zone hints on 2 of 3 ready pods (a, b): ignored, because every pod needs one\n',
    );
    hinted.setPods([]);
    expect((await run('near.shop:http', '--no-connect')).stdout).not.toContain('hints');
  });

  it('API server down, headless Service: 1', async () => {
    service('headless');
    await world.api.kill();
    const result = await run(`orders.shop:${pods.port}`);
    expect(result.code).toBe(1);
    matchesDocs('api-down', result);
  });

  it('DNS down: 0, since EndpointSlices do not need it', async () => {
    service('headless');
    await world.dns.stop();
    const result = await run('orders.shop:http');
    expect(result.code).toBe(0);
    matchesDocs('dns-down', result);
  });

  it('both down: 2', async () => {
    await world.api.kill();
    await world.dns.stop();
    const result = await run('orders.shop:http', '--timeout', '4');
    expect(result.code).toBe(2);
    matchesDocs('both-down', result);
  });

  it('pods that do not listen: 2', async () => {
    world.allow([]);
    service('headless');
    // Nobody listens on port 1 of the pods.
    const result = await run('orders.shop:1');
    expect(result.code).toBe(2);
    matchesDocs('wrong-port', result);
  });

  it('outside a pod: uses the name as it is written', async () => {
    service('headless');
    const target = `orders.shop.svc.cluster.local:${pods.port}`;
    vi.unstubAllEnvs();
    const result = await runHere([
      ...['doctor', target],
      ...['--dns-server', world.dns.address, '--allow-address', 'loopback'],
    ]);
    expect(result.code).toBe(1);
    matchesDocs('laptop', result);
  });

  it('kubernetes: without permission: 2; with it: 0', async () => {
    world.allow([]);
    service('headless');
    const result = await run('kubernetes:orders.shop:http');
    expect(result.code).toBe(2);
    expect(result.stdout).toContain('It does not work: the API server does not let us list EndpointSlices');
    expect(result.stdout).toContain('kind: RoleBinding');
    world.allow(reader);
    expect((await run('kubernetes:orders.shop:http')).code).toBe(0);
  });

  it('dns: with a cluster IP: 1; with pods: 0', async () => {
    service('cluster-ip');
    const result = await run('dns:orders.shop:80', '--no-connect');
    expect(result.code).toBe(1);
    expect(result.stdout).toContain('DNS names only the cluster IP');
    service('headless');
    expect((await run(`dns:orders.shop:${pods.port}`)).code).toBe(0);
  });

  it('a pod that does not listen: 1', async () => {
    service('headless').putPod({ name: 'orders-9', address: '127.0.1.9' });
    const result = await run('orders.shop:http');
    expect(result.code).toBe(1);
    expect(result.stdout).toContain('1 of 4 endpoints accept no connection');
  });

  it('--json: the same report for programs', async () => {
    service('cluster-ip', [true, false]);
    const { code, stdout } = await run('orders.shop:http', '--json');
    expect(code).toBe(0);
    const report = JSON.parse(stdout) as Record<string, unknown>;
    expect(report).toMatchObject({
      target: 'orders.shop:http',
      outcome: 'fine',
      exitCode: 0,
      api: {
        list: { state: 'allowed' },
        watch: { state: 'allowed' },
        getService: { state: 'allowed' },
        slices: { count: 1, ports: ['http'], ready: 1, notReady: 1 },
      },
      dns: { kind: 'cluster-ip', a: { records: 1, ttl: 5 } },
      use: { mode: 'slices' },
      connections: [{ endpoint: `127.0.1.1:${pods.port}` }],
      todo: [],
    });
    expect((report.use as { endpoints: unknown[] }).endpoints).toHaveLength(2);
  });

  it('--watch: follows the endpoints until Ctrl-C', async () => {
    const controller = service('cluster-ip', [true]);
    const running = startDoctor(world, 'orders.shop:http', ['--watch', '--no-connect']);
    const said = (text: string): Promise<void> => until(text, () => running.stdout.includes(text));
    await said('+ 127.0.1.1');
    controller.putPod({ name: 'orders-1', address: '127.0.1.2' });
    await said('+ 127.0.1.2');
    controller.updatePod('orders-1', { ready: false });
    await said('~ 127.0.1.2');
    controller.removePod('orders-1');
    await said('- 127.0.1.2');
    await world.api.kill();
    await said('ECONNREFUSED');
    running.interrupt();
    const result = await running.ended;
    expect([result.code, result.stderr]).toEqual([0, '']);
  });

  it('Ctrl-C ends it while it still waits for answers', async () => {
    world.api.failNext('any', { kind: 'hang' }, { times: 100 });
    world.dns.fault({ kind: 'silent' });
    const running = startDoctor(world, 'orders.shop:http', ['--timeout', '600']);
    await until('a question', () => world.dns.queries.length > 0);
    running.interrupt();
    expect((await running.ended).code).toBe(2);
  });

  it('--help, and errors in the command line: 64', async () => {
    const help = await new RunningDoctor(['--help']).ended;
    expect(help.code).toBe(0);
    expect(docs.join('\n')).toContain(help.stdout.trimEnd());
    // What else is refused: test/unit/cli/command-line.test.ts.
    const { code, stdout, stderr } = await new RunningDoctor(['doctor', 'orders.shop']).ended;
    expect([code, stdout]).toEqual([64, '']);
    expect(stderr).toMatch(/^evenkeel: .*the port is missing.*\ntry evenkeel --help\n$/);
  });

  it('the manifest it prints gives the permission that was missing', async () => {
    world.allow([]);
    service('headless');
    const before = await run('orders.shop:http');
    expect(before.stdout).toContain('resources: ["endpointslices"]\n    verbs: ["list", "watch"]');
    world.allow(reader);
    expect((await run('orders.shop:http')).code).toBe(0);
  });
});
