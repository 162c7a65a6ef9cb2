import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { Consumer, type ProgramResult, runProgram } from '../../support/programs/consumer.js';

const packages = fileURLToPath(new URL('../../../node_modules', import.meta.url));

/** An app with two pods and an address of the Service, which calls it with node:http, fetch and grpc-js in turn and prints who answered. */
const app = (grpcName: string, body: string): string => `
const http = require('node:http');
const grpc = ${grpcName === '' ? 'undefined' : `require(${JSON.stringify(grpcName)})`};
const id = (bytes) => bytes;
const path = '/a.B/C';
const method = { path, requestStream: false, responseStream: false, requestSerialize: id, requestDeserialize: id, responseSerialize: id, responseDeserialize: id };
const httpServer = (name) => new Promise((resolve) => {
  const server = http.createServer((_request, response) => response.end(name));
  server.listen(0, '127.0.0.1', () => resolve(server.address().port));
});
const grpcServer = (name) => new Promise((resolve) => {
  const server = new grpc.Server();
  server.addService({ C: method }, { C: (_call, callback) => callback(null, Buffer.from(name)) });
  server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (_error, port) => resolve(port));
});
const count = async (call) => {
  const names = new Set();
  for (let i = 0; i < 20; i++) names.add((await call().catch((error) => error.message)).replace(/^pod-.$/, 'pods'));
  return [...names].sort().join();
};
const start = async (server) => {
  const [service, ...pods] = await Promise.all(['service', 'pod-1', 'pod-2'].map(server));
  globalThis.resolver = 'static:' + pods.map((port) => '127.0.0.1:' + port).join();
  return service;
};
const get = (port) => () => new Promise((resolve, reject) => http.get('http://localhost:' + port, (response) => {
  let text = '';
  response.on('data', (data) => (text += data)).on('end', () => resolve(text));
}).on('error', reject));
const fetched = (port) => async () => (await fetch('http://localhost:' + port)).text();
const called = (port) => {
  const client = new grpc.Client('localhost:' + port, grpc.credentials.createInsecure());
  return () => new Promise((resolve, reject) => client.makeUnaryRequest(path, id, id, Buffer.alloc(0), { deadline: Date.now() + 20_000 }, (error, value) => error ? reject(error) : resolve(String(value))));
};
const left = () => [...globalThis[Symbol.for('evenkeel.register')].left].map(([what, { remedy }]) => what + ': ' + remedy);
const print = (value) => console.log(JSON.stringify(value));
(async () => { ${body} process.exit(); })();
`;
const ofGrpc = `print([await count(called(await start(grpcServer)))]); print(left());`;

let consumer: Consumer;
beforeEach(async () => {
  consumer = await Consumer.create(inject('installed'));
});
afterEach(() => consumer.remove());

const link = async (name: string, here: string): Promise<void> => {
  const to = join(consumer.folder, 'node_modules', name);
  await mkdir(dirname(to), { recursive: true });
  await symlink(join(packages, here), to, 'junction');
};

/** Another copy of grpc-js, which says that it is some version. */
async function copyGrpc(name: string, version?: string): Promise<void> {
  const to = join(consumer.folder, 'node_modules', name);
  await cp(join(packages, '@grpc/grpc-js'), to, { recursive: true, filter: (file) => !file.endsWith('.map') });
  for (const dependency of ['@grpc/proto-loader', '@js-sdsl/ordered-map']) await link(dependency, dependency);
  if (version === undefined) return;
  const file = join(to, 'package.json');
  await writeFile(file, JSON.stringify({ ...JSON.parse(await readFile(file, 'utf8')), version }));
}

async function run(file: string, source?: string, nodeArgs: readonly string[] = []): Promise<ProgramResult> {
  if (source !== undefined) await writeFile(join(consumer.folder, file), source);
  await writeFile(
    join(consumer.folder, 'config.cjs'),
    'const options = () => ({ resolver: globalThis.resolver }); module.exports = { http: options, fetch: options, grpc: options };',
  );
  const env = {
    EVENKEEL_SERVICES: 'localhost',
    EVENKEEL_CONFIG: join(consumer.folder, 'config.cjs'),
    NODE_OPTIONS: '',
  };
  return runProgram(process.execPath, ['--require', 'evenkeel/register', ...nodeArgs, file], consumer.folder, env);
}
const lines = ({ stdout }: ProgramResult): unknown[] =>
  stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

describe("an app's own undici 6", () => {
  const source = app(
    '',
    `const port = await start(httpServer); for (const call of [get, fetched, get]) print(await count(call(port))); print(left());`,
  );

  it('is left alone with fetch, and node:http stays balanced', async () => {
    await link('undici', 'undici6');
    const result = await run('app.cjs', source);
    expect(lines(result)).toEqual(['pods', 'service', 'pods', ['undici: npm install undici7@npm:undici@7']]);
    expect(result.stderr).toMatch(
      /^evenkeel: EVENKEEL_REGISTER: undici is not balanced: it needs undici \^7\.0\.0 \|\| \^8\.0\.0 beside undici 6\.[\d.]+\. Remedy: npm install undici7@npm:undici@7\n$/,
    );
  });

  it('is balanced with fetch where another copy is installed under another name', async () => {
    await link('undici', 'undici6');
    await link('undici7', 'undici');
    const { stdout, stderr } = await run('app.cjs', source);
    expect({ stdout, stderr }).toEqual({ stdout: '"pods"\n"pods"\n"pods"\n[]\n', stderr: '' });
  });
});

describe('grpc-js', () => {
  it.each(['1.10.0', '1.13.4', '2.0.0'])('%s is left alone with one line; the app goes on', async (version) => {
    await copyGrpc('@grpc/grpc-js', version);
    const result = await run(
      'app.cjs',
      app(
        '@grpc/grpc-js',
        `print([await count(called(await start(grpcServer))), await count(get(await start(httpServer)))]); print(left());`,
      ),
    );
    expect(lines(result)).toEqual([['service', 'pods'], ['@grpc/grpc-js: npm install @grpc/grpc-js@1']]);
    expect(result.stderr).toBe(
      `evenkeel: EVENKEEL_REGISTER: @grpc/grpc-js is not balanced: it needs >=1.14 <2, not ${version}. Remedy: npm install @grpc/grpc-js@1\n`,
    );
  });

  it.each([
    ['a copy that an npm alias names', 'grpc-alias', () => copyGrpc('grpc-alias')],
    [
      'a link of another name, as Next.js makes it',
      '@grpc/grpc-js-a3bed6',
      () => link('@grpc/grpc-js-a3bed6', '@grpc/grpc-js'),
    ],
  ])('%s is balanced, with no other copy beside evenkeel', async (_what, name, install) => {
    await install();
    const { stdout, stderr } = await run('app.cjs', app(name, ofGrpc));
    expect({ stdout, stderr }).toEqual({ stdout: '["pods"]\n[]\n', stderr: '' });
  });

  it('two copies in one app are balanced, each with an engine of its own', async () => {
    await copyGrpc('grpc-alias');
    await link('@grpc/grpc-js', '@grpc/grpc-js');
    const second = `const other = require('grpc-alias'); const { Client, credentials } = other;`;
    const both = `const port = await start(grpcServer); print([await count(called(port))]); ${second}
      const client = new Client('localhost:' + port, credentials.createInsecure());
      print(await count(() => new Promise((resolve, reject) => client.makeUnaryRequest(path, id, id, Buffer.alloc(0), (error, value) => error ? reject(error) : resolve(String(value))))));
      print(left());`;
    const { stdout, stderr } = await run('app.cjs', app('@grpc/grpc-js', both));
    expect({ stdout, stderr }).toEqual({ stdout: '["pods"]\n"pods"\n[]\n', stderr: '' });
  });

  it('is balanced where it was loaded before evenkeel', async () => {
    await link('@grpc/grpc-js', '@grpc/grpc-js');
    await writeFile(join(consumer.folder, 'first.cjs'), `require('@grpc/grpc-js'); require('evenkeel/register');`);
    await writeFile(join(consumer.folder, 'app.cjs'), app('@grpc/grpc-js', ofGrpc));
    await writeFile(
      join(consumer.folder, 'config.cjs'),
      'module.exports = { grpc: () => ({ resolver: globalThis.resolver }) };',
    );
    const env = {
      EVENKEEL_SERVICES: 'localhost',
      EVENKEEL_CONFIG: join(consumer.folder, 'config.cjs'),
      NODE_OPTIONS: '',
    };
    const args = ['--require', './first.cjs', 'app.cjs'];
    const { stdout, stderr } = await runProgram(process.execPath, args, consumer.folder, env);
    expect({ stdout, stderr }).toEqual({ stdout: '["pods"]\n[]\n', stderr: '' });
  });

  it.each([false, true])('in a bundle is listed with what to write; minified: %s', async (minify) => {
    await link('@grpc/grpc-js', '@grpc/grpc-js');
    const input = join(consumer.folder, 'app.cjs');
    await writeFile(input, app('@grpc/grpc-js', ofGrpc));
    const bundle = await rolldown({ input, platform: 'node', cwd: consumer.folder, external: [/^evenkeel/] });
    const { output } = await bundle.generate({ format: 'cjs', codeSplitting: false, minify } as never);
    await bundle.close();
    const result = await run('bundle.cjs', output[0].code);
    expect(lines(result)).toEqual([
      ['service'],
      [
        '@grpc/grpc-js in a bundle: leave @grpc/grpc-js out of the bundle ("external"), so that it is loaded from node_modules',
      ],
    ]);
  });
});

it('a client of node:http2 that the app made is listed with what to write', async () => {
  const body = `require('node:http2').connect('http://localhost:1').on('error', () => {}); print(left());`;
  expect(lines(await run('app.cjs', app('', body)))).toEqual([
    ['a client of node:http2: createHttp2Client or createSessionManager of evenkeel/http2 in its place'],
  ]);
});
