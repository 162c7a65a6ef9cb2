/**
 * Which of our source files a reader meets on the way of one call: those of which a function runs during one warm call, by V8's
 * coverage, with the length of each.
 *
 *   npm run call-path
 *   npm run call-path -- --json    an object: by entry point, a list of { file, lines }
 */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, get } from 'node:http';
import { Session } from 'node:inspector/promises';
import { createServer as createTcpServer } from 'node:net';
import { join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import * as grpc from '@grpc/grpc-js';
import * as mysql from 'mysql2';

const root = fileURLToPath(new URL('..', import.meta.url));
const compiled = join(root, '.cache/call-path');
const WARM_CALLS = 50;
const MEASURED_CALLS = 5;

const tsc = join(root, 'node_modules/.bin/tsc');
const flags = ['-p', 'tsconfig.build.json', '--outDir', compiled, '--emitDeclarationOnly', 'false'];
const { status, stdout } = spawnSync(tsc, flags, { cwd: root, encoding: 'utf8' });
if (status !== 0) throw new Error(stdout);
/** @param {string} source */
const load = (source) => import(pathToFileURL(join(compiled, `${source}.js`)).href);
const { staticEndpoints } = await load('index');

/** @param {import('node:net').Server} server */
async function listening(server) {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return /** @type {import('node:net').AddressInfo} */ (server.address()).port;
}
/** @param {number} port */
const resolverOf = (port) => staticEndpoints([{ address: '127.0.0.1', port }]);

/** One call by each entry point, to a server in this process. @type {Record<string, () => Promise<() => Promise<unknown>>>} */
const entryPoints = {
  'HTTP (undici)': async () => {
    const port = await listening(createServer((_request, answer) => answer.end('ok')));
    const { createDispatcher } = await load('adapter/undici/index');
    const dispatcher = createDispatcher('http://orders.shop:8080', { resolver: resolverOf(port) });
    return async () => (await dispatcher.request({ path: '/', method: 'GET' })).body.dump();
  },
  'HTTP (node:http)': async () => {
    const port = await listening(createServer((_request, answer) => answer.end('ok')));
    const { createAgent } = await load('adapter/node-http/index');
    const agent = createAgent('http://orders.shop:8080', { resolver: resolverOf(port) });
    return () =>
      new Promise((resolve, reject) => {
        const request = get('http://orders.shop:8080/', { agent }, (response) => response.resume());
        request.once('error', reject).once('close', () => resolve(undefined));
      });
  },
  gRPC: async () => {
    const server = new grpc.Server();
    const same = (/** @type {Buffer} */ bytes) => bytes;
    const path = '/shop.v1.Orders/Get';
    const codec = {
      requestSerialize: same,
      requestDeserialize: same,
      responseSerialize: same,
      responseDeserialize: same,
    };
    server.addService(
      { get: { path, requestStream: false, responseStream: false, ...codec } },
      { get: (/** @type {any} */ _call, /** @type {any} */ reply) => reply(null, Buffer.alloc(1)) },
    );
    const port = await new Promise((resolve) =>
      server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (_error, bound) => resolve(bound)),
    );
    const { serviceChannelOptions, serviceTarget } = await load('adapter/grpc-js/index');
    const options = serviceChannelOptions({ resolver: resolverOf(port) });
    const client = new grpc.Client(serviceTarget('orders.shop:50051'), grpc.credentials.createInsecure(), options);
    return () =>
      new Promise((resolve, reject) =>
        client.makeUnaryRequest(path, same, same, Buffer.alloc(1), (error) =>
          error ? reject(error) : resolve(undefined),
        ),
      );
  },
  'SQL (mysql2)': async () => {
    const server = createTcpServer((socket) => {
      const connection = mysql.createConnection(/** @type {any} */ ({ stream: socket, isServer: true }));
      const side = /** @type {any} */ (connection);
      side.serverHandshake({
        protocolVersion: 10,
        serverVersion: '8.0.0',
        connectionId: 1,
        statusFlags: 2,
        characterSet: 8,
        // All but TLS.
        capabilityFlags: 0xffffff ^ 0x800,
      });
      side.on('query', () => {
        side.writeOk();
        side.sequenceId = 0;
      });
      side.on('error', () => {});
    });
    const port = await listening(server);
    const { createPoolCluster } = await load('adapter/mysql2/index');
    const cluster = createPoolCluster({ resolver: resolverOf(port), user: 'app' });
    return () => cluster.query('SELECT 1');
  },
};

/** Those in which a function ran, with the length of each. @param {import('node:inspector').Profiler.ScriptCoverage[]} scripts */
const filesOf = (scripts) =>
  scripts
    .filter(
      ({ url, functions }) =>
        url.startsWith(pathToFileURL(compiled).href) &&
        functions.some(({ ranges }) => ranges.some(({ count }) => count > 0)),
    )
    .map(({ url }) => relative(compiled, fileURLToPath(url)).replace(/\.js$/, '.ts'))
    .map((file) => ({ file, lines: readFileSync(join(root, 'src', file), 'utf8').split('\n').length - 1 }))
    .sort((a, b) => a.file.localeCompare(b.file));

/** @type {Record<string, ReturnType<typeof filesOf>>} */
const measured = {};
for (const [name, open] of Object.entries(entryPoints)) {
  const call = await open();
  for (let number = 0; number < WARM_CALLS; number++) await call();
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  const runs = [];
  for (let number = 0; number < MEASURED_CALLS; number++) {
    await session.post('Profiler.takePreciseCoverage');
    await call();
    runs.push((await session.post('Profiler.takePreciseCoverage')).result);
  }
  session.disconnect();
  // What a timer brings now and then, or what one call leaves to the next on a busy machine, is in a few of them only.
  const [files = []] = mostCommon(runs.map(filesOf), (one) => one.map(({ file }) => file).join());
  measured[name] = files;
}
/** The values in groups that look alike, the largest group first. @template T @param {T[]} values @param {(value: T) => string} look */
function mostCommon(values, look) {
  /** @type {Map<string, T[]>} */
  const groups = new Map();
  for (const value of values) groups.set(look(value), [...(groups.get(look(value)) ?? []), value]);
  return [...groups.values()].sort((a, b) => b.length - a.length)[0] ?? [];
}

if (process.argv.includes('--json')) console.log(JSON.stringify(measured));
else {
  for (const [name, files] of Object.entries(measured)) {
    console.log(`${name}: ${files.length} files`);
    for (const { file, lines } of files) console.log(`  ${String(lines).padStart(4)}  ${file}`);
  }
}
process.exit();
