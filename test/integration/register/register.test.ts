import { execFile, spawn } from 'node:child_process';
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PageData } from '../../../src/admin/page-data.js';
import type { TargetOptions } from '../../../src/resolver/target.js';
import { createCertificate, type ServiceController, type ServicePort } from '../../servers/index.js';
import { DiscoveryWorld } from '../../support/fixtures/discovery-world.js';
import { bytesMethod } from '../../support/pods/grpc-method.js';
import { Pod, Pods } from '../../support/pods/pods.js';
import { WsPod } from '../../support/pods/ws-pods.js';
import { freePort } from '../../support/programs/free-port.js';
import { until } from '../../support/until.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const register = join(root, 'dist/register/register.cjs');
const app = fileURLToPath(new URL('support/app.mjs', import.meta.url));
const toLoopback = fileURLToPath(new URL('support/all-is-loopback.cjs', import.meta.url));
const noDns = fileURLToPath(new URL('support/no-dns.cjs', import.meta.url));

let world: DiscoveryWorld;
let pods: Pods;
let outside: Pod;
let config: string;

beforeAll(async () => {
  [world, pods, outside] = await Promise.all([DiscoveryWorld.create(), Pods.start(3), Pod.start({ name: 'outside' })]);
  exist('orders', pods);
  config = join(world.folder, 'evenkeel.cjs');
  const discovery = discoveryOfPod();
  await writeFile(config, `module.exports = { discovery: ${JSON.stringify(discovery)} };\n`);
});
afterAll(async () => {
  await pods[Symbol.asyncDispose]();
  await outside.kill();
  await world[Symbol.asyncDispose]();
});

/** Nothing listens on a Service's address in this world, so an API server that is slow on a busy machine is not given up for DNS. */
function discoveryOfPod(): TargetOptions {
  return world.options({ allowAddresses: ['loopback'], sliceGraceMs: 60_000 });
}

/** The Service as the API server and DNS know it. */
function exist(name: string, members: Pods, ready = true): void {
  existAt(name, members.all, ready);
}

function existAt(
  name: string,
  members: readonly { readonly name: string; readonly port: number }[],
  ready = true,
): void {
  world.dns.kubernetes.set({
    namespace: 'shop',
    name,
    clusterIPs: ['127.0.0.1'],
    ports: [{ name: 'http', port: 8080 }],
  });
  serviceOf(name, { name: 'http', port: 8080, targetPort: 'http' }).setPods(
    members.map((pod) => ({ name: pod.name, address: '127.0.0.1', ports: { http: pod.port }, ready })),
  );
}

const services = new Map<string, ServiceController>();

/** The Service of that name, the same one each time: a second controller would leave the first one's slices as they are. */
function serviceOf(name: string, port: ServicePort): ServiceController {
  const known = services.get(name) ?? world.api.service('shop', name, { ports: [port] });
  services.set(name, known);
  return known;
}

/** A module for EVENKEEL_CONFIG that exports `more`, too. */
async function configWith(more: string): Promise<string> {
  const file = join(world.folder, `evenkeel-${more.length}.cjs`);
  const discovery = JSON.stringify(discoveryOfPod());
  await writeFile(file, `module.exports = { discovery: ${discovery}, ${more} };\n`);
  return file;
}

interface Result {
  readonly pods: Readonly<Record<string, number>>;
  readonly failed: Readonly<Record<string, number>>;
  readonly stderr: string;
  readonly code: number | null;
}

interface Running {
  readonly result: Promise<Result>;
  /** Resolves when the app has sent its first message. */
  readonly message: Promise<unknown>;
  /** Ends after the requests that run. */
  stop(): void;
}

/** Runs an app in a pod: what it sees of the cluster is in its environment. */
function start(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  nodeArgs: readonly string[] = [],
): Running {
  const child = spawn(process.execPath, ['--require', register, '--require', noDns, ...nodeArgs, ...args], {
    cwd: root,
    env: {
      ...process.env,
      NODE_OPTIONS: '',
      // The AWS SDK warns of Node 20.
      NODE_NO_WARNINGS: '1',
      KUBERNETES_SERVICE_HOST: '127.0.0.1',
      KUBERNETES_SERVICE_PORT: String(world.api.port),
      EVENKEEL_CONFIG: config,
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
    stdout += chunk;
  });
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    stderr += chunk;
  });
  const result = new Promise<Result>((resolve) => {
    child.on('close', (code) => {
      const line = stdout.trim().split('\n').at(-1) ?? '';
      const counts = line.startsWith('{')
        ? (JSON.parse(line) as Omit<Result, 'stderr' | 'code'>)
        : { pods: {}, failed: {} };
      resolve({ ...counts, stderr, code });
    });
  });
  const message = new Promise<unknown>((resolve) => void child.once('message', resolve));
  return { result, message, stop: () => child.send('stop') };
}

const orders = 'http://orders.shop:8080/v1/orders/42';
const run = (client: string, url = orders, env: Readonly<Record<string, string>> = {}): Promise<Result> =>
  start([app, client, url], env).result;
/** For an app that is balanced: it calls until each of three pods has answered, or a call has failed. */
const REACHES_ALL = 'until 3 pods';
const runUntilAll = (client: string, url = orders, env: Readonly<Record<string, string>> = {}): Promise<Result> =>
  start([app, client, url, REACHES_ALL], env).result;

const clients = [
  'fetch',
  'undici',
  'undici fetch',
  'undici with a URL object',
  'fetch beside undici',
  'undici6',
  ...(Number(process.versions.node.split('.')[0]) >= 22 ? ['undici8', 'undici 6, 7 and 8 in turn'] : []),
  'http.get',
  'agent of the app',
  'agent with two sockets',
  's3 of AWS',
  'elasticsearch',
  'axios',
  'got',
  'node-fetch',
  'superagent',
  'needle',
  'openai',
];

describe('node --require evenkeel/register', () => {
  it.each(clients)('%s, unchanged, reaches every pod', async (client) => {
    const { pods: seen, failed, stderr, code } = await runUntilAll(client);
    expect({ stderr, failed, code }).toEqual({ stderr: '', failed: {}, code: 0 });
    expect(Object.keys(seen).sort()).toEqual(pods.all.map(({ name }) => name).sort());
  });

  it.each(['fetch', 'undici', 'undici fetch', 'http.get', 'axios'])(
    '%s: requests to a host outside, and to one that could be a Service and is not, stay as they were',
    async (client) => {
      const hosts = `http://127.0.0.1:${outside.port}/,http://legacy.shop:${outside.port}/`;
      const { result } = start([app, client, hosts], {}, ['--require', toLoopback]);
      const { pods: seen, failed, stderr } = await result;
      expect({ seen, failed, stderr }).toEqual({ seen: { outside: 30 }, failed: {}, stderr: '' });
    },
  );

  it.each(['fetch', 'undici', 'http.get'])('%s: a rolling update fails no request', async (client) => {
    const before = await Pods.start(3);
    exist('stock', before);
    const running = start([app, client, 'http://stock.shop:8080/', 'until told']);
    await until('all pods serve', async () =>
      (await Promise.all(before.all.map((pod) => pod.stats()))).every(({ requests }) => requests > 20),
    );
    const next = await Pods.start(3);
    exist('stock', next);
    await until('the new pods serve', async () =>
      (await Promise.all(next.all.map((pod) => pod.stats()))).every(({ requests }) => requests > 20),
    );
    running.stop();
    const { failed, stderr } = await running.result;
    expect({ failed, stderr }).toEqual({ failed: {}, stderr: '' });
    await Promise.all([before[Symbol.asyncDispose](), next[Symbol.asyncDispose]()]);
  });

  it.each(['http.get', 'fetch', 'undici'])(
    '%s: where every pod refuses connections, and where none is ready, a request fails at once with the error of Node',
    async (client) => {
      const gone = await Pods.start(2);
      exist('gone', gone);
      await gone[Symbol.asyncDispose]();
      exist('unready', pods, false);
      // A request that waited would outlast the test.
      const wait = '{ waitTimeoutMs: 3_600_000 }';
      const env = { EVENKEEL_CONFIG: await configWith(`http: ${wait}, fetch: () => (${wait})`) };
      const { failed } = await start([app, client, 'http://gone.shop:8080/,http://unready.shop:8080/'], env).result;
      expect(failed).toEqual({ ECONNREFUSED: 30 });
    },
  );

  it.each(['https.get', 'fetch', 'undici'])('%s: certificate errors are those of OpenSSL', async (client) => {
    const { cert, key } = createCertificate({ commonName: 'elsewhere', hosts: ['elsewhere'] });
    const secret = await Pods.start(1, { tls: { cert, key } });
    const name = `secret-of-${client.replace('.', '-')}`;
    exist(name, secret);
    const url = `https://${name}.shop:8080/`;
    const { failed } = await start([app, client, url, '10']).result;
    await secret[Symbol.asyncDispose]();
    expect(failed).toEqual({ DEPTH_ZERO_SELF_SIGNED_CERT: 10 });
  });
});

describe('gRPC', () => {
  const all: GrpcPod[] = [];
  let port = 0;
  beforeAll(async () => {
    const pods = await grpcPods('anna', 'bert', 'cleo');
    port = pods[0]?.port ?? 0;
    existWithGrpc('said', pods);
  });
  afterAll(() => {
    for (const { server } of all) server.forceShutdown();
  });

  interface GrpcPod {
    readonly name: string;
    readonly server: Server;
    readonly port: number;
    calls: number;
  }

  /** Servers that answer with their names. */
  function grpcPods(...names: readonly string[]): Promise<GrpcPod[]> {
    return Promise.all(
      names.map(async (name) => {
        const server = new Server();
        const port = new Promise<number>((resolve, reject) => {
          server.addService({ Say: bytesMethod('/shop.Orders/Say') }, {
            Say: (_call: unknown, answer: (error: null, bytes: Buffer) => void) => {
              pod.calls++;
              answer(null, Buffer.from(name));
            },
          } as never);
          server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
            error === null ? resolve(bound) : reject(error),
          );
        });
        const pod = { name, server, port: await port, calls: 0 };
        all.push(pod);
        return pod;
      }),
    );
  }

  function existWithGrpc(name: string, pods: readonly GrpcPod[], ready = true): void {
    world.dns.kubernetes.set({
      namespace: 'shop',
      name,
      clusterIPs: ['127.0.0.1'],
      ports: [{ name: 'grpc', port: 50051 }],
    });
    serviceOf(name, { name: 'grpc', port: 50051, targetPort: 'grpc' }).setPods(
      pods.map(({ name, port: grpc }) => ({ name, address: '127.0.0.1', ports: { grpc }, ready })),
    );
  }

  it.each([
    ['grpc-js', 'said.shop:50051'],
    ['grpc-js', 'dns:///said.shop:50051'],
    ['grpc-js by require', 'said.shop.svc.cluster.local:50051'],
    ['nice-grpc', 'said.shop:50051'],
  ])('%s, unchanged, with %s reaches every pod', async (client, target) => {
    const { pods: seen, failed, stderr } = await runUntilAll(client, target);
    expect({ stderr, failed }).toEqual({ stderr: '', failed: {} });
    expect(Object.keys(seen).sort()).toEqual(['anna', 'bert', 'cleo']);
  });

  it('grpc-js reports a port that cannot exist', async () => {
    const { failed, stderr, code } = await run('grpc-js', 'said.shop:99999', { GRPC_VERBOSITY: 'NONE' });
    expect({ failed, stderr, code }).toEqual({ failed: { 14: 30 }, stderr: '', code: 0 });
  });

  it.each(['grpc-js', 'nice-grpc'])(
    '%s: where every pod refuses connections, and where none is ready, a call fails at once',
    async (client) => {
      const [pod] = all as [GrpcPod];
      existWithGrpc('gone-grpc', [{ ...pod, port: await freePort() }]);
      existWithGrpc('unready-grpc', [pod], false);
      const env = { EVENKEEL_CONFIG: await configWithGrpc('{ waitTimeoutMs: 3_600_000 }') };
      for (const name of ['gone', 'unready']) {
        const { failed } = await run(client, `${name}-grpc.shop:50051`, env);
        expect({ name, failed }).toEqual({ name, failed: { 14: 30 } });
      }
    },
  );

  it('EVENKEEL_CONFIG gives options per Service', async () => {
    const [anna] = all as [GrpcPod];
    existWithGrpc('told', all.slice(0, 3));
    const file = await configWithGrpc(
      `({ protocol, hostname, port }) =>
        protocol === 'grpc:' && hostname === 'said.shop' && port === '50051' ? { resolver: 'static:127.0.0.1:${anna.port}' } : undefined`,
    );
    const env = { EVENKEEL_CONFIG: file };
    expect((await run('grpc-js', 'said.shop:50051', env)).pods).toEqual({ anna: 30 });
    expect((await run('nice-grpc', 'dns:///said.shop:50051', env)).pods).toEqual({ anna: 30 });
    expect(Object.keys((await runUntilAll('grpc-js', 'told.shop:50051', env)).pods)).toHaveLength(3);
  });

  it.each([
    ['() => ({ pickr: 1 })', 'options has no option "pickr" (did you mean "picker"?)'],
    ['async () => ({})', 'options() must be options, not a promise of them, got a promise'],
    ['() => { throw new Error("no such Service"); }', 'no such Service'],
    ['{ resolver: "static:127.0.0.1:1" }', 'options.resolver must be left out'],
  ])('an invalid value, %s, prints one line, and the app runs without evenkeel', async (grpc, message) => {
    const env = { EVENKEEL_CONFIG: await configWithGrpc(grpc) };
    const { result } = start([app, 'grpc-js', `said.shop:${port}`], env, ['--require', toLoopback]);
    const { pods: seen, failed, stderr } = await result;
    expect(stderr).toContain(`evenkeel: EVENKEEL_REGISTER: ${message}`);
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect({ seen, failed }).toEqual({ seen: { anna: 30 }, failed: {} });
  });

  it.each(['key', 'priority', 'onBalancer'])(
    'a `%s` of EVENKEEL_CONFIG that throws prints one line, and every call goes on',
    async (name) => {
      const env = { EVENKEEL_CONFIG: await configWithGrpc(`{ ${name}: () => { throw new Error("no ${name}"); } }`) };
      const { pods: seen, failed, stderr } = await run('grpc-js', 'said.shop:50051', env);
      expect(stderr).toBe(`evenkeel: EVENKEEL_REGISTER: no ${name}; the app runs without evenkeel\n`);
      expect({ calls: Object.values(seen).reduce((sum, count) => sum + count, 0), failed }).toEqual({
        calls: 30,
        failed: {},
      });
    },
  );

  /** A module for EVENKEEL_CONFIG whose options for gRPC are this expression. */
  async function configWithGrpc(expression: string): Promise<string> {
    const file = join(world.folder, `grpc-${expression.length}.cjs`);
    const discovery = JSON.stringify(discoveryOfPod());
    await writeFile(file, `module.exports = { discovery: ${discovery}, grpc: ${expression} };\n`);
    return file;
  }

  it('an address is left to grpc-js', async () => {
    expect((await run('grpc-js', `127.0.0.1:${port}`)).pods).toEqual({ anna: 30 });
  });

  it.each(['grpc-js', 'nice-grpc'])(
    '%s: a name that could be a Service and is not is left to grpc-js',
    async (client) => {
      const { result } = start([app, client, `legacy.shop:${port}`], {}, ['--require', toLoopback]);
      const { pods: seen, failed, stderr } = await result;
      expect({ seen, failed, stderr }).toEqual({ seen: { anna: 30 }, failed: {}, stderr: '' });
    },
  );

  it('a rolling update fails no call', async () => {
    const before = await grpcPods('old-1', 'old-2', 'old-3');
    existWithGrpc('sold', before);
    const running = start([app, 'grpc-js', 'sold.shop:50051', 'until told']);
    await until('all pods serve', () => before.every(({ calls }) => calls > 20));
    const next = await grpcPods('new-1', 'new-2', 'new-3');
    existWithGrpc('sold', next);
    // A process that did not run meanwhile may not have heard yet.
    await until('the new pods serve all', async () => {
      const calls = (): number => before.reduce((sum, pod) => sum + pod.calls, 0);
      const [old, then] = [calls(), next.map((pod) => pod.calls)];
      await until('the new pods serve', () => next.every((pod, index) => pod.calls > (then[index] as number) + 20));
      return calls() === old;
    });
    await Promise.all(
      before.map(({ server }) => new Promise<unknown>((resolve) => server.tryShutdown((error) => resolve(error)))),
    );
    running.stop();
    const { failed, stderr } = await running.result;
    expect({ failed, stderr }).toEqual({ failed: {}, stderr: '' });
  });

  it.each([
    ['grpc_proxy', {}, 0],
    ['http_proxy', {}, 0],
    ['http_proxy', { no_proxy: '.shop' }, 3],
  ])('with %s in the environment and %o, grpc-js decides (%i pods reached)', async (name, more, reached) => {
    const closed = `http://127.0.0.1:${await freePort()}`;
    const count = reached === 0 ? '10' : REACHES_ALL;
    const { pods: seen } = await start([app, 'grpc-js', 'said.shop:50051', count], { [name]: closed, ...more }).result;
    expect(Object.keys(seen)).toHaveLength(reached);
  });
});

describe('WebSockets', () => {
  let chat: WsPod[];
  beforeAll(async () => {
    chat = await Promise.all(['dora', 'emil', 'fine'].map((name) => WsPod.start({ name })));
    world.dns.kubernetes.set({
      namespace: 'shop',
      name: 'chat',
      clusterIPs: ['127.0.0.1'],
      ports: [{ name: 'ws', port: 8080 }],
    });
    world.api
      .service('shop', 'chat', { ports: [{ name: 'ws', port: 8080, targetPort: 'ws' }] })
      .setPods(chat.map(({ name, endpoint }) => ({ name, address: '127.0.0.1', ports: { ws: endpoint.port } })));
  });
  afterAll(async () => {
    await Promise.all(chat.map((pod) => pod[Symbol.asyncDispose]()));
  });

  it.each(['ws', 'ws by require', ...(typeof WebSocket === 'function' ? ['WebSocket of Node'] : [])])(
    '%s, unchanged, opens as many connections to each pod',
    async (client) => {
      const { pods: seen, failed, stderr } = await run(client, 'ws://chat.shop:8080/');
      expect({ seen, failed, stderr }).toEqual({ seen: { dora: 10, emil: 10, fine: 10 }, failed: {}, stderr: '' });
    },
  );

  it('ws: a host outside, and one that could be a Service and is not, stay as they were', async () => {
    const port = chat[0]?.endpoint.port;
    expect((await run('ws', `ws://127.0.0.1:${port}/`)).pods).toEqual({ dora: 30 });
    const { result } = start([app, 'ws', `ws://legacy.shop:${port}/`], {}, ['--require', toLoopback]);
    expect((await result).pods).toEqual({ dora: 30 });
  });

  it("ws: a server's WebSocket, and one of a subclass, are instances of the class", async () => {
    const script = `
      const WebSocket = require('ws');
      class Own extends WebSocket {}
      const server = new WebSocket.Server({ port: 0, host: '127.0.0.1' }, () => {
        const own = new Own('ws://127.0.0.1:' + server.address().port);
        server.on('connection', (socket) => own.on('open', () => {
          const right = [socket instanceof WebSocket, own instanceof Own, own instanceof WebSocket, WebSocket.WebSocket === WebSocket];
          console.log(JSON.stringify({ pods: { right: right.filter(Boolean).length }, failed: {} }));
          process.exit();
        }));
      });`;
    const { pods: seen, stderr } = await start(['-e', script]).result;
    expect({ seen, stderr }).toEqual({ seen: { right: 4 }, stderr: '' });
  });
});

describe('an API server that does not answer', () => {
  it('makes no request wait: until it answers, requests go where DNS says', async () => {
    const accepted = new Set<Socket>();
    const silent = createServer((socket) => void accepted.add(socket));
    const port = await new Promise<number>((resolve) => {
      silent.listen(0, '127.0.0.1', () => resolve((silent.address() as AddressInfo).port));
    });
    const discovery = world.options({ allowAddresses: ['loopback'] });
    const env = { KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: String(port) };
    const own = { ...discovery, kubernetes: { inCluster: { path: world.folder, env } } };
    const file = join(world.folder, 'silent.cjs');
    await writeFile(file, `module.exports = { discovery: ${JSON.stringify(own)} };\n`);
    world.dns.kubernetes.set({
      namespace: 'shop',
      name: 'quiet',
      clusterIPs: ['127.0.0.1'],
      ports: [{ name: 'http', port: outside.port }],
    });
    const { pods: seen, failed } = await run('fetch', `http://quiet.shop:${outside.port}/`, { EVENKEEL_CONFIG: file });
    for (const socket of accepted) socket.destroy();
    silent.close();
    expect({ seen, failed }).toEqual({ seen: { outside: 30 }, failed: {} });
  });
});

describe('beside OpenTelemetry', () => {
  const otel = fileURLToPath(new URL('support/otel.cjs', import.meta.url));
  const orders = 'http://orders.shop:8080/v1/orders/42';

  it.each(['fetch', 'undici', 'http.get'])('%s reaches every pod, whichever is required first', async (client) => {
    const after = start([app, client, orders, REACHES_ALL], {}, ['--require', otel]);
    const before = start([app, client, orders, REACHES_ALL], { NODE_OPTIONS: `--require=${otel}` });
    for (const { result } of [after, before]) {
      const { pods: seen, failed, stderr } = await result;
      expect({ stderr, failed }).toEqual({ stderr: '', failed: {} });
      expect(Object.keys(seen)).toHaveLength(3);
    }
  });
});

describe('the settings of register', () => {
  const script = ['-e', 'console.log("the app runs")'];

  it.each([
    [
      'EVENKEEL_SERVICES',
      'orders shop',
      'EVENKEEL_SERVICES must be host names such as orders.shop, separated by commas, got "orders shop"',
    ],
    [
      'EVENKEEL_ADMIN',
      'yes',
      'EVENKEEL_ADMIN must be a port, or an address and a port such as 0.0.0.0:9901, got "yes"',
    ],
    ['EVENKEEL_DISABLED', 'maybe', 'EVENKEEL_DISABLED must be 1 or 0, got "maybe"'],
    ['EVENKEEL_CONFIG', 'evenkeel.cjs', 'EVENKEEL_CONFIG must be an absolute path, got "evenkeel.cjs"'],
  ])('%s=%s: prints one line on stderr, and the app runs', async (name, value, message) => {
    const { stderr, code } = await start(script, { [name]: value }).result;
    expect(stderr).toBe(`evenkeel: EVENKEEL_REGISTER: ${message}; the app runs without evenkeel\n`);
    expect(code).toBe(0);
  });

  it('a config file that does not exist: prints one line when it is first needed, and requests go where they went before', async () => {
    const url = `http://localhost.shop:${outside.port}/`;
    const { stderr, code } = await run('http.get', url, { EVENKEEL_CONFIG: join(world.folder, 'none.cjs') });
    expect(stderr).toMatch(/^evenkeel: EVENKEEL_REGISTER: Cannot find module [^\n]*; the app runs without evenkeel\n$/);
    expect(code).toBe(0);
  });

  it.each(
    ['http', 'fetch'].flatMap((name) => [
      [name, '() => { throw new Error("no such Service"); }', 'no such Service'],
      [name, 'async () => ({})', 'options() must be options, not a promise of them, got a promise'],
      [name, 'async () => { throw new Error("later"); }', 'options() must be options, not a promise of them'],
      [name, '() => ({ waitTimeoutMs: -1 })', 'waitTimeoutMs'],
    ]),
  )(
    'EVENKEEL_CONFIG with %s: %s prints one line when it is first called, and requests go where they went before',
    async (name, options, message) => {
      const client = name === 'http' ? 'http.get' : 'fetch';
      const env = { EVENKEEL_CONFIG: await configWith(`${name}: ${options}`) };
      const url = `http://orders.shop:${outside.port}/`;
      const { pods: seen, failed, stderr } = await start([app, client, url], env, ['--require', toLoopback]).result;
      expect({ seen, failed }).toEqual({ seen: { outside: 30 }, failed: {} });
      expect(stderr).toMatch(/^evenkeel: EVENKEEL_REGISTER: [^\n]*; the app runs without evenkeel\n$/);
      expect(stderr).toContain(message);
    },
  );

  it('EVENKEEL_METRICS is served to GET requests for an address or localhost, and to no other', async () => {
    const port = await freePort();
    const script = `
      const http = require('node:http');
      const ask = (host, method) => new Promise((resolve) => http.request({ host: '127.0.0.1', port: ${port}, method, headers: { host } }, (response) => response.resume().on('end', () => resolve(response.statusCode))).end());
      (async () => {
        await fetch('http://orders.shop:8080/');
        const statuses = [await ask('10.0.0.7:9102', 'GET'), await ask('localhost', 'HEAD'), await ask('attacker.example', 'GET'), await ask('localhost', 'POST')];
        console.log(JSON.stringify({ pods: { statuses }, failed: {} }));
        process.disconnect();
      })();`;
    const { pods: seen, stderr } = await start(['-e', script], { EVENKEEL_METRICS: String(port) }).result;
    expect({ seen, stderr }).toEqual({ seen: { statuses: [200, 200, 403, 405] }, stderr: '' });
  });

  it.each([
    ['EVENKEEL_DISABLED', '1'],
    ['EVENKEEL_EXCLUDE', 'orders.shop'],
    ['EVENKEEL_EXCLUDE', 'orders.shop.svc.cluster.local'],
    ['EVENKEEL_SERVICES', 'stock.shop'],
  ])('%s=%s excludes the Service', async (name, value) => {
    const { failed, pods: seen } = await run('http.get', orders, { [name]: value });
    // Here nothing resolves the name, as the ClusterIP would in a cluster.
    expect(seen).toEqual({});
    expect(Object.keys(failed)).toHaveLength(1);
    expect(Object.keys(failed)[0]).toMatch(/ENOTFOUND|EAI_AGAIN/);
  });

  it('EVENKEEL_SERVICES excludes hosts of other domains', async () => {
    const url = `http://orders.shop.svc.example.com:${outside.port}/`;
    const { result } = start([app, 'http.get', url], { EVENKEEL_SERVICES: 'orders.shop' }, ['--require', toLoopback]);
    const { pods: seen, failed } = await result;
    expect({ seen, failed }).toEqual({ seen: { outside: 30 }, failed: {} });
  });

  it('EVENKEEL_SERVICES names the Services, in any spelling', async () => {
    const { pods: seen } = await runUntilAll('fetch', orders, { EVENKEEL_SERVICES: 'orders.shop.svc.cluster.local' });
    expect(Object.keys(seen)).toHaveLength(3);
  });

  it('outside a cluster nothing changes', async () => {
    const check = [
      '-e',
      'console.log(JSON.stringify({ pods: { patched: Number(!/native code|lazyUndici|undici/.test(String(fetch))) }, failed: {} }))',
    ];
    const env = { KUBERNETES_SERVICE_HOST: undefined } as unknown as Record<string, string>;
    const { stderr } = await start(check, env).result;
    expect(stderr).toBe('');
  });
});

describe('the admin page', () => {
  it('shows the Services in use, and which clients are not balanced', async () => {
    const port = await freePort();
    const script = `
      const http = require('node:http');
      class OwnAgent extends http.Agent {}
      const get = (url, options = {}) => new Promise((resolve) => http.get(url, options, (response) => response.resume().on('end', resolve)).on('error', resolve));
      (async () => {
        await get('http://orders.shop:8080/');
        await get('http://orders.shop:8080/', { agent: new OwnAgent() });
        const { balancers, unbalanced } = await (await fetch('http://127.0.0.1:${port}/balancers')).json();
        console.log(JSON.stringify({ pods: { balancers: balancers.length, endpoints: balancers[0].endpoints.length, unbalanced: unbalanced.length, [unbalanced[0].what]: unbalanced[0].count }, failed: {} }));
        process.disconnect();
      })();`;
    const { pods: seen, stderr } = await start(['-e', script], { EVENKEEL_ADMIN: String(port) }).result;
    expect({ seen, stderr }).toEqual({
      seen: { balancers: 1, endpoints: 3, unbalanced: 1, 'OwnAgent of node:http': 1 },
      stderr: '',
    });
  });
});

describe('an agent that the app created', () => {
  it.each(['lookup', 'host'])('that connects in its own way, by %s, still does', async (name) => {
    const script = `
      const http = require('node:http');
      let calls = 0;
      const ways = {
        lookup: (host, options, answer) => { calls++; answer(null, [{ address: '127.0.0.1', family: 4 }]); },
        host: '127.0.0.1',
      };
      const agent = new http.Agent({ ${name}: ways.${name} });
      http.get('http://orders.shop:${outside.port}/', { agent }, (response) => response.resume().on('end', () => {
        console.log(JSON.stringify({ pods: { calls, [response.headers['x-pod']]: 1 }, failed: {} }));
        process.exit();
      }));`;
    const { pods: seen, stderr } = await start(['-e', script]).result;
    expect({ seen, stderr }).toEqual({ seen: { calls: name === 'host' ? 0 : 1, outside: 1 }, stderr: '' });
  });
});

describe('NODE_OPTIONS', () => {
  it('balances a worker thread and a forked process, too', async () => {
    const file = join(world.folder, 'threads.cjs');
    await writeFile(
      file,
      `const { fork } = require('node:child_process');
      const { isMainThread, parentPort, Worker } = require('node:worker_threads');
      const seen = async () => {
        const names = new Set();
        while (names.size < 3) names.add((await (await fetch('${orders}')).json()).pod);
        return names.size;
      };
      const told = (source) => new Promise((resolve) => source.once('message', resolve));
      (async () => {
        if (!isMainThread) return parentPort.postMessage(await seen());
        if (process.argv[2] === 'fork') return process.send(await seen(), () => process.disconnect());
        const [thread, child] = await Promise.all([told(new Worker(__filename)), told(fork(__filename, ['fork']))]);
        console.log(JSON.stringify({ pods: { thread, child }, failed: {} }));
        process.disconnect();
      })();`,
    );
    const { pods: seen, stderr } = await start([file], { NODE_OPTIONS: `--require=${register} --require=${noDns}` })
      .result;
    expect({ seen, stderr }).toEqual({ seen: { thread: 3, child: 3 }, stderr: '' });
  });
});

describe('an app whose tests replace timers', () => {
  // undici itself needs setImmediate.
  it.each([
    ['http.get', ['setTimeout', 'setInterval', 'setImmediate']],
    ['fetch', ['setTimeout', 'setInterval']],
    ['undici', ['setTimeout', 'setInterval']],
  ])('%s reaches every pod while %j never fire and performance.now() stands still', async (client, names) => {
    const file = join(world.folder, `no-timers-${names.length}.cjs`);
    await writeFile(
      file,
      `const timer = { ref: () => timer, unref: () => timer, hasRef: () => false, refresh: () => timer };
      for (const name of ${JSON.stringify(names)}) globalThis[name] = () => timer;
      performance.now = () => 0;`,
    );
    const {
      pods: seen,
      failed,
      stderr,
    } = await start([app, client, orders, REACHES_ALL], {}, ['--require', file]).result;
    expect({ stderr, failed }).toEqual({ stderr: '', failed: {} });
    expect(Object.keys(seen)).toHaveLength(3);
  });
});

describe('a kept connection', () => {
  it('begins a request of got with the same events as without register, and its time-out for sending comes', async () => {
    existAt('lone', [outside]);
    const script = `
      const http = require('node:http');
      const { Readable } = require('node:stream');
      const agent = { http: new http.Agent({ keepAlive: true }) };
      (async () => {
        const { got } = await import('got');
        const events = async (url) => {
          await got(url, { agent });
          const seen = [];
          // A body that never ends.
          const body = new Readable({ read() {} });
          body.push('some');
          const sent = got.post(url, { agent, body, timeout: { send: 1 }, retry: { limit: 0 } });
          sent.on('request', (request) => request.once('socket', (socket) => {
            seen.push(request.reusedSocket ? 'kept' : 'new', socket.connecting ? 'connecting' : 'connected');
            for (const event of ['lookup', 'connect']) socket.once(event, () => seen.push(event));
          }));
          await sent.catch(({ message, code }) => seen.push(message, code));
          return seen.join(', ');
        };
        const pods = { [await events('http://lone.shop:8080/')]: 1 };
        pods[await events('http://127.0.0.1:${outside.port}/')] = 1;
        console.log(JSON.stringify({ pods, failed: {} }));
        process.exit();
      })();`;
    const { pods: seen, stderr } = await start(['-e', script]).result;
    expect({ seen, stderr }).toEqual({
      seen: { "kept, connected, Timeout awaiting 'send' for 1ms, ETIMEDOUT": 1 },
      stderr: '',
    });
  });
});

describe('an undici Agent that the app made the global dispatcher', () => {
  /** Calls `url` by this copy of undici and by Node's fetch, twice each. */
  const calling = (library: string, made: string, url: string): string => `
    const net = require('node:net');
    (async () => {
      const { Agent, getGlobalDispatcher, request, setGlobalDispatcher } = await import('${library}');
      const agent = ${made};
      setGlobalDispatcher(agent);
      const seen = { pods: {}, failed: {} };
      const count = (kind, name) => { seen[kind][name] = (seen[kind][name] ?? 0) + 1; };
      const ask = async (answer) => {
        try {
          count('pods', (await answer()).pod);
        } catch (error) {
          count('failed', error.code ?? error.cause?.code ?? error.message);
        }
      };
      const byRequest = () => ask(async () => (await request('${url}')).body.json());
      const byFetch = () => ask(async () => (await fetch('${url}')).json());
      await Promise.all([byRequest(), byFetch(), byRequest(), byFetch()]);
      if (getGlobalDispatcher() !== agent) count('failed', 'another dispatcher');
      const { left } = globalThis[Symbol.for('evenkeel.register')];
      for (const what of left.keys()) seen.pods[what] = 1;
      console.log(JSON.stringify(seen));
      process.exit();
    })();`;
  // The undici 8 in Node 26 does not use a global dispatcher of undici 6, and puts its own in that place when it is loaded.
  const nodeMajor = Number(process.versions.node.split('.')[0]);
  const libraries = [...(nodeMajor < 26 ? ['undici6'] : []), 'undici', ...(nodeMajor >= 22 ? ['undici8'] : [])];

  it.each(libraries)('of %s keeps its TLS settings', async (library) => {
    const name = `own-ca-of-${library}`;
    const { cert, key } = createCertificate({ commonName: 'own-ca', hosts: [`${name}.shop`] });
    const secret = await Pods.start(1, { tls: { cert, key } });
    exist(name, secret);
    const made = `new Agent(${JSON.stringify({ connect: { ca: cert } })})`;
    const {
      pods: seen,
      failed,
      stderr,
    } = await start(['-e', calling(library, made, `https://${name}.shop:8080/`)]).result;
    const names = secret.all.map((pod) => pod.name);
    await secret[Symbol.asyncDispose]();
    expect({ seen, failed, stderr }).toEqual({ seen: { [String(names[0])]: 4 }, failed: {}, stderr: '' });
  });

  it.each(libraries)('of %s keeps its timeout for headers', async (library) => {
    const silent = await Pods.start(1);
    await silent.all[0]?.behave({ hang: true });
    exist(`silent-to-${library}`, silent);
    const script = calling(library, 'new Agent({ headersTimeout: 100 })', `http://silent-to-${library}.shop:8080/`);
    const { failed } = await start(['-e', script]).result;
    await silent[Symbol.asyncDispose]();
    expect(failed).toEqual({ UND_ERR_HEADERS_TIMEOUT: 4 });
  });

  it.each(
    libraries.flatMap((library) => [
      [library, '{ connectTimeout: 100 }'],
      [library, '{ connectTimeout: 600_000, connect: { timeout: 100 } }'],
    ]),
  )('of %s keeps its time-out for connecting: %s', async (library, options) => {
    // A pod that accepts and says nothing opens no connection over TLS.
    const accepted = new Set<Socket>();
    const mute = createServer((socket) => void accepted.add(socket));
    const port = await new Promise<number>((resolve) => {
      mute.listen(0, '127.0.0.1', () => resolve((mute.address() as AddressInfo).port));
    });
    const name = `mute-to-${library}-${options.length}`;
    existAt(name, [{ name: 'mute', port }]);
    const script = calling(library, `new Agent(${options})`, `https://${name}.shop:8080/`);
    // With these limits the app would outlast the test.
    const env = {
      EVENKEEL_CONFIG: await configWith('fetch: { waitTimeoutMs: 600_000, pool: { connectTimeoutMs: 600_000 } }'),
    };
    const { failed, stderr } = await start(['-e', script], env).result;
    for (const socket of accepted) socket.destroy();
    mute.close();
    expect({ failed, stderr }).toEqual({ failed: { UND_ERR_CONNECT_TIMEOUT: 4 }, stderr: '' });
  });

  it.each(libraries)('of %s that connects in its own way is left alone, and listed', async (library) => {
    const made = `new Agent({
      connect: (options, connected) => {
        const socket = net.connect(${outside.port}, '127.0.0.1', () => connected(null, socket));
      },
    })`;
    const { pods: seen, failed } = await start(['-e', calling(library, made, orders)]).result;
    const left = 'a global dispatcher of undici that says how to connect';
    expect({ seen, failed }).toEqual({ seen: { outside: 4, [left]: 1 }, failed: {} });
  });

  it.each(libraries)('of %s with interceptors is left alone, and listed', async (library) => {
    const made = `new Agent().compose((dispatch) => (options, handler) =>
      dispatch({ ...options, origin: 'http://127.0.0.1:${outside.port}' }, handler))`;
    const { pods: seen, failed } = await start(['-e', calling(library, made, orders)]).result;
    const left = `the global dispatcher ${library === 'undici6' ? 'ComposedDispatcher' : 'Agent'} of undici, which is no plain Agent`;
    expect({ seen, failed }).toEqual({ seen: { outside: 4, [left]: 1 }, failed: {} });
  });

  it.each(
    libraries.flatMap((library) => [
      [
        library,
        'of its class',
        'new (((Base) => class Agent extends Base { dispatch(...args) { return elsewhere(super.dispatch)(...args); } })(Agent))()',
      ],
      [library, 'on the prototype', '(Agent.prototype.dispatch = elsewhere(Agent.prototype.dispatch), new Agent())'],
      [library, 'of its own', '((made) => Object.assign(made, { dispatch: elsewhere(made.dispatch) }))(new Agent())'],
    ]),
  )('of %s keeps a dispatch %s, and is listed', async (library, _where, made) => {
    const elsewhere = `const elsewhere = (dispatch) => function (options, handler) {
      return dispatch.call(agent, { ...options, origin: 'http://127.0.0.1:${outside.port}' }, handler);
    };`;
    const script = calling(library, made, orders).replace('const agent', `${elsewhere} const agent`);
    const { pods: seen, failed } = await start(['-e', script]).result;
    const left = 'the global dispatcher Agent of undici, which is no plain Agent';
    expect({ seen, failed }).toEqual({ seen: { outside: 4, [left]: 1 }, failed: {} });
  });

  describe.runIf(libraries.includes('undici6'))('of undici6', () => {
    it('with the option interceptors is left alone, and listed', async () => {
      const made = `new Agent({ interceptors: { Agent: [(dispatch) => (options, handler) =>
        dispatch({ ...options, origin: 'http://127.0.0.1:${outside.port}' }, handler)] } })`;
      const { pods: seen, failed } = await start(['-e', calling('undici6', made, orders)]).result;
      const left = 'the global dispatcher Agent of undici, which is no plain Agent';
      expect({ seen, failed }).toEqual({ seen: { outside: 4, [left]: 1 }, failed: {} });
    });

    it.each([
      ['of the Agent', 'new Agent({ maxRedirections: 1 })', ''],
      ['of a request', 'new Agent()', ', { maxRedirections: 1 }'],
    ])('follows redirects by the option maxRedirections %s', async (_whose, made, more) => {
      const moved = await Pods.start(1);
      await moved.all[0]?.behave({ status: 302, headers: { location: `http://127.0.0.1:${outside.port}/` } });
      exist('moved', moved);
      const url = 'http://moved.shop:8080/';
      const script = calling('undici6', made, url).replace(`request('${url}')`, `request('${url}'${more})`);
      const { pods: seen, failed, stderr } = await start(['-e', script]).result;
      await moved[Symbol.asyncDispose]();
      expect({ seen, failed, stderr }).toEqual({ seen: { outside: 4 }, failed: {}, stderr: '' });
    });
  });
});

describe('clients that are not balanced', () => {
  it('are listed by the admin page and by doctor, each with the code to write', async () => {
    const port = await freePort();
    const folder = join(world.folder, 'left');
    const modules = join(folder, 'node_modules');
    const temporal = join(modules, '@temporalio/core-bridge');
    await mkdir(temporal, { recursive: true });
    await cp(join(root, 'node_modules/@grpc/grpc-js'), join(modules, '@grpc/grpc-js'), { recursive: true });
    await writeFile(
      join(temporal, 'index.js'),
      `for (let call = 0; call < 2; call++) require('./releases/index.node');`,
    );
    await mkdir(join(temporal, 'releases'));
    await writeFile(join(temporal, 'releases/index.node'), '');
    const file = join(folder, 'app.cjs');
    await writeFile(
      file,
      `const http = require('node:http');
      const net = require('node:net');
      const get = (options) => new Promise((resolve) => http.get('${orders}', options, (response) => response.resume().on('end', resolve)).on('error', resolve));
      class OwnAgent extends http.Agent {}
      (async () => {
        await get({ agent: new OwnAgent() });
        await get({ agent: new http.Agent({ maxTotalSockets: 1 }) });
        await get({ createConnection: () => net.connect(${outside.port}, '127.0.0.1') });

        const { Agent, EnvHttpProxyAgent, Pool, request, setGlobalDispatcher } = require('undici');
        await (await request('${orders}')).body.dump();
        const pool = new Pool('http://legacy.shop:${outside.port}');
        await (await pool.request({ path: '/', method: 'GET' })).body.dump();
        await pool.close();
        for (const dispatcher of [new EnvHttpProxyAgent(), new Agent({ connect: () => {} })]) {
          setGlobalDispatcher(dispatcher);
          for (let call = 0; call < 2; call++) require('undici');
        }

        const { Client, credentials } = require('@grpc/grpc-js');
        new Client('said.shop:50051', credentials.createInsecure()).close();
        process.env.grpc_proxy = 'http://127.0.0.1:1';
        new Client('said.shop:50051', credentials.createInsecure()).close();

        // The file stands for a native module, and has nothing to load.
        require('node:module')._extensions['.node'] = () => {};
        require('@temporalio/core-bridge');
        process.send('done');
        process.on('message', () => process.exit());
      })();`,
    );
    const env = { EVENKEEL_ADMIN: String(port), NODE_PATH: join(root, 'node_modules') };
    const running = start([file], env, ['--require', toLoopback]);
    await running.message;
    const page = `http://127.0.0.1:${port}/`;
    const { unbalanced } = (await (await fetch(`${page}balancers`)).json()) as Pick<PageData, 'unbalanced'>;
    const doctor = await promisify(execFile)(process.execPath, [
      join(root, 'dist/cli/evenkeel.js'),
      ...['doctor', `static:127.0.0.1:${outside.port}`, '--no-connect', '--admin', page],
    ]).catch((error: { readonly stdout: string }) => error);
    running.stop();
    expect((await running.result).stderr).toBe('');
    expect(unbalanced).toEqual(
      [
        ['OwnAgent of node:http', 'createAgent of evenkeel/node-http in its place'],
        ['an agent of node:http with maxTotalSockets', 'maxSockets in its place'],
        ['a request of node:http with createConnection', 'an agent in its place'],
        [
          'a Pool, Client or Agent of undici that the app made',
          'if it calls a Service, createDispatcher of evenkeel/undici in its place, or the global dispatcher',
        ],
        [
          'the global dispatcher EnvHttpProxyAgent of undici, which is no plain Agent',
          'compose it with appInterceptor() of evenkeel/undici',
        ],
        [
          'a global dispatcher of undici that says how to connect',
          'compose it with appInterceptor() of evenkeel/undici',
        ],
        ['@grpc/grpc-js through a proxy', 'no_grpc_proxy=said.shop in the environment'],
        [
          '@temporalio/core-bridge',
          "if Temporal's server is a Service, make it headless, and NativeConnection.connect({ address, dnsLoadBalancingConfig: { resolutionInterval: '30s' } })",
        ],
      ].map(([what, remedy]) => ({ what, count: 1, remedy })),
    );
    for (const { what, remedy } of unbalanced ?? []) {
      expect(doctor.stdout).toContain(`not balanced: ${what}, 1 time\n`);
      expect(doctor.stdout).toContain(`To balance ${what}: ${remedy}\n`);
    }
  });
});

describe('a minified bundle', () => {
  it('of undici and ws, whose classes and functions have other names, is balanced', async () => {
    const file = join(world.folder, 'minified.cjs');
    const entry = join(world.folder, 'entry.cjs');
    await writeFile(
      entry,
      `const { request } = require('undici');
      const WebSocket = require('ws');
      (async () => {
        // By this one register learns that there is an undici; it goes where DNS says, which is nowhere here.
        await request('${orders}').catch(() => {});
        const pods = {};
        while (Object.keys(pods).length < 5) {
          const { pod } = await (await request('${orders}')).body.json();
          pods[pod] = (pods[pod] ?? 0) + 1;
          const name = await new Promise((resolve, reject) => {
            const socket = new WebSocket('ws://talk.shop:8080/');
            socket.once('message', (data) => resolve(JSON.parse(data).name)).once('error', reject);
          });
          pods[name] = (pods[name] ?? 0) + 1;
        }
        const { left } = globalThis[Symbol.for('evenkeel.register')];
        console.log(JSON.stringify({ pods, failed: Object.fromEntries(left) }));
        process.exit();
      })();`,
    );
    const { build } = await import('rolldown');
    await build({
      input: entry,
      platform: 'node',
      resolve: { modules: [join(root, 'node_modules')] },
      external: [/^node:/, 'bufferutil', 'utf-8-validate'],
      output: { file, format: 'cjs', minify: true },
    });
    const talk = await Promise.all(['gina', 'hans'].map((name) => WsPod.start({ name })));
    world.dns.kubernetes.set({
      namespace: 'shop',
      name: 'talk',
      clusterIPs: ['127.0.0.1'],
      ports: [{ name: 'ws', port: 8080 }],
    });
    world.api
      .service('shop', 'talk', { ports: [{ name: 'ws', port: 8080, targetPort: 'ws' }] })
      .setPods(talk.map(({ name, endpoint }) => ({ name, address: '127.0.0.1', ports: { ws: endpoint.port } })));
    const { pods: seen, failed, stderr } = await start([file]).result;
    await Promise.all(talk.map((pod) => pod[Symbol.asyncDispose]()));
    expect({ stderr, failed }).toEqual({ stderr: '', failed: {} });
    expect(Object.keys(seen).sort()).toEqual([...pods.all.map(({ name }) => name), 'gina', 'hans'].sort());
  });
});

describe('@kubernetes/client-node', () => {
  it('is left alone: it connects to the API server by its address', async () => {
    const script = `
      (async () => {
        const { DiscoveryV1Api, KubeConfig } = await import('@kubernetes/client-node');
        const config = new KubeConfig();
        const [, server, token] = process.argv;
        config.loadFromClusterAndUser({ name: 'own', server, skipTLSVerify: true }, { name: 'own', token });
        const { items } = await config.makeApiClient(DiscoveryV1Api).listNamespacedEndpointSlice({ namespace: 'shop' });
        const loaded = Object.keys(require.cache).filter((file) => /dist.register.(?!register.cjs)/.test(file));
        console.log(JSON.stringify({ pods: { some: Math.min(items.length, 1), loaded: loaded.length }, failed: {} }));
        process.exit();
      })();`;
    const token = await readFile(join(world.folder, 'token'), 'utf8');
    const { pods: seen, stderr } = await start(['-e', script, world.api.url, token]).result;
    expect({ seen, stderr }).toEqual({ seen: { some: 1, loaded: 0 }, stderr: '' });
  });
});

describe('a process', () => {
  it('prints the same with NODE_DEBUG=undici as without register', async () => {
    const script = `
      const { request } = require('undici');
      request('http://127.0.0.1:${outside.port}/').then(({ body }) => body.dump()).then(() => process.disconnect());`;
    const { stderr } = await start(['-e', script], { NODE_DEBUG: 'undici' }).result;
    expect(stderr).toMatch(/connecting to .*connected to .*sending request/s);
  });

  it("that calls no Service has the global dispatcher of the first loaded copy of undici, not Node's", async () => {
    const script = `
      const { Agent, getGlobalDispatcher } = require('undici');
      console.log(JSON.stringify({ pods: { own: Number(getGlobalDispatcher() instanceof Agent) }, failed: {} }));
      process.disconnect();`;
    const { pods: counts, stderr } = await start(['-e', script]).result;
    expect({ counts, stderr }).toEqual({ counts: { own: 1 }, stderr: '' });
  });

  it('keeps the global dispatcher of its own undici, also when it calls a Service by node:http first', async () => {
    const script = `
      require('node:http').get('${orders}', (response) => response.resume().on('end', () => {
        const { Agent, getGlobalDispatcher } = require('undici');
        console.log(JSON.stringify({ pods: { own: Number(getGlobalDispatcher() instanceof Agent) }, failed: {} }));
        process.disconnect();
      }));`;
    const { pods: counts, stderr } = await start(['-e', script]).result;
    expect({ counts, stderr }).toEqual({ counts: { own: 1 }, stderr: '' });
  });

  it("whose fetch is Node's loads of npm's undici what connects, and takes forms of a copy loaded later", async () => {
    const script = `
      const loaded = () => Object.keys(require.cache).filter((file) => /undici.index.js$|undici.lib.mock/.test(file)).length;
      const form = (FormData) => { const made = new FormData(); made.set('name', 'value'); return made; };
      const post = (body) => fetch('${orders}', { method: 'POST', body }).then(({ status }) => status);
      (async () => {
        const own = await post(form(FormData));
        const before = loaded();
        const undici = require('undici');
        const { statusCode } = await undici.request('${orders}', { method: 'POST', body: form(undici.FormData) });
        console.log(JSON.stringify({ pods: { own, before, statusCode }, failed: {} }));
        process.disconnect();
      })();`;
    const { pods: counts, stderr } = await start(['-e', script]).result;
    expect({ counts, stderr }).toEqual({ counts: { own: 200, before: 0, statusCode: 200 }, stderr: '' });
  });

  it('that calls no Service has no socket, timer or watch, and loads nothing', async () => {
    const script = `
      fetch; require('node:http'); require('undici'); require('@grpc/grpc-js');
      setImmediate(() => {
        const loaded = Object.keys(require.cache).filter((file) => /dist.register.(?!register.cjs)/.test(file));
        console.log(JSON.stringify({ pods: { loaded: loaded.length, handles: process.getActiveResourcesInfo().filter((name) => !/Pipe|Immediate|TTY/.test(name)).length }, failed: {} }));
        process.disconnect();
      });`;
    const { pods: counts, stderr } = await start(['-e', script]).result;
    expect({ counts, stderr }).toEqual({ counts: { loaded: 0, handles: 0 }, stderr: '' });
  });
});

describe('an app that watches its own connections', () => {
  const get = `(agent) => new Promise((resolve) => {
    const request = http.get('http://orders.shop:8080/', { agent }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk) => (text += chunk)).on('end', () => resolve(JSON.parse(text).pod));
    });
    watch(request);
    request.on('error', (error) => resolve(error.message));
  })`;

  /** Sends 30 requests, or until so many pods have answered; returns how often each pod answered, or each error came. */
  async function answers(
    code: string,
    { args = [], until = 0 }: { readonly args?: readonly string[]; readonly until?: number } = {},
  ): Promise<Readonly<Record<string, number>>> {
    const file = join(world.folder, `watches-${code.length}.cjs`);
    await writeFile(
      file,
      `const http = require('node:http');
      let watch = () => {};
      let agent = new http.Agent();
      ${code}
      const get = ${get};
      (async () => {
        const pods = {};
        for (let call = 0; ${until > 0 ? `Object.keys(pods).length < ${until}` : 'call < 30'}; call++) {
          const answer = await get(agent);
          pods[answer] = (pods[answer] || 0) + 1;
        }
        console.log(JSON.stringify({ pods, failed: {} }));
        process.exit();
      })();`,
    );
    return (await start([file], {}, ['--require', toLoopback, ...args]).result).pods;
  }

  it.each([
    [
      'at the event lookup of a socket',
      `watch = (request) => request.on('socket', (socket) => socket.on('lookup', (_error, address) => {
        if (address.startsWith('127.')) request.destroy(new Error('blocked'));
      }));`,
    ],
    [
      'on the prototype of Agent',
      `http.Agent.prototype.createConnection = (_options, created) => void created(new Error('blocked'));`,
    ],
    ['in an agent of its own', `agent.createSocket = (_request, _options, created) => created(new Error('blocked'));`],
  ])('keeps its check %s', async (_where, code) => {
    expect(await answers(code)).toEqual({ blocked: 30 });
  });

  it('keeps its check of the connections of an agent, also of one that requests of another agent have opened', async () => {
    const code = `
      agent = new http.Agent({ keepAlive: true });
      let calls = 0;
      watch = (request) => {
        if (++calls === 15) agent = new http.Agent({ keepAlive: true });
        if (calls > 15) request.on('socket', (socket) => socket.on('lookup', () => request.destroy(new Error('blocked'))));
      };`;
    expect((await answers(code)).blocked).toBe(15);
  });

  it.each([
    [
      'shimmer (OpenTelemetry, Elastic)',
      `const { createConnection } = http.Agent.prototype;
      const wrapped = function (...args) { return createConnection.apply(this, args); };
      Object.defineProperty(wrapped, '__original', { value: createConnection });
      http.Agent.prototype.createConnection = wrapped;`,
    ],
    [
      'New Relic',
      `const { createConnection } = http.Agent.prototype;
      const wrapped = function (...args) { return createConnection.apply(this, args); };
      wrapped[Symbol('original')] = createConnection;
      http.Agent.prototype.createConnection = wrapped;`,
    ],
    [
      'Datadog',
      `const { Socket } = require('node:net');
      const dns = require('node:dns');
      const around = (owner, name) => {
        const method = owner[name];
        owner[name] = function (...args) { return method.apply(this, args); };
      };
      around(http, 'get');
      around(http, 'request');
      around(Socket.prototype, 'connect');
      around(dns, 'lookup');`,
    ],
    [
      'Sentry',
      `const { subscribe } = require('node:diagnostics_channel');
      for (const name of ['http.client.request.start', 'http.client.response.finish']) subscribe(name, () => {});
      const { request } = http;
      http.request = new Proxy(request, { apply: (method, that, args) => Reflect.apply(method, that, args) });`,
    ],
  ])('is balanced with the wrappers of %s', async (_name, code) => {
    expect(Object.keys(await answers(code, { until: 3 })).sort()).toEqual(pods.all.map(({ name }) => name).sort());
  });

  it('is balanced with the instrumentations of OpenTelemetry', async () => {
    const otel = fileURLToPath(new URL('support/otel.cjs', import.meta.url));
    const seen = await answers('', { args: ['--require', otel], until: 3 });
    expect(Object.keys(seen).sort()).toEqual(pods.all.map(({ name }) => name).sort());
  });
});
