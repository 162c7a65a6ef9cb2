import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Connection, createEndpoint, type Transport } from 'evenkeel';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { buildPackage, guidePrograms, outputOfModule } from '../../support/programs/programs.js';

interface LineClient {
  ask(line: string): Promise<string>;
}

const example = (file: string): string =>
  fileURLToPath(new URL(`../../../examples/any-protocol/${file}`, import.meta.url));

describe('the transport of examples/any-protocol', () => {
  const sockets: Socket[] = [];
  /** What the server does with a line. */
  let answer: (socket: Socket, line: string) => void;
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', (data) => answer(socket, String(data)));
  });
  let connection: Connection<LineClient>;

  beforeEach(async () => {
    const { lineTransport } = (await import(example('line-transport.js'))) as { lineTransport: Transport<LineClient> };
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const endpoint = createEndpoint({ address: '127.0.0.1', port });
    connection = await lineTransport.connect(endpoint, new AbortController().signal);
  });
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });

  it('a reset fails the calls under way and ends their connection', async () => {
    answer = (socket) => socket.resetAndDestroy();
    await expect(connection.handle.ask('hello')).rejects.toMatchObject({ code: 'ECONNRESET' });
    expect(await connection.closed).toMatchObject({ code: 'ECONNRESET' });
    await expect(connection.handle.ask('too late')).rejects.toMatchObject({ code: 'ECONNRESET' });
  });
});

it('examples/any-protocol ends well each time, however the killed server was met', async () => {
  const run = promisify(execFile);
  for (let round = 0; round < 3; round++) {
    const { stdout } = await run(process.execPath, [example('main.js')]);
    // The first two calls go to pods drawn by lot, then it goes on in turn.
    expect(stdout).toMatch(/three servers: +\{ (\w+: (99|100|101)(, )?){3} \}/);
    const [, killed = ''] = /one killed meanwhile: +\{ (.*) \}/.exec(stdout) ?? [];
    expect(killed).toMatch(/anna: 1\d\d/);
    expect(killed).toMatch(/cleo: 1\d\d/);
  }
});

it('examples/any-protocol keeps the contract of every transport, under node:test', async () => {
  await buildPackage();
  const { stdout } = await promisify(execFile)(process.execPath, ['--test', example('line-transport.test.js')]);
  expect(stdout).toMatch(/^(# |ℹ )pass 11$/m);
});

it('the adapter of docs/guide/adapters.md runs as it stands', async () => {
  await buildPackage();
  const source = guidePrograms('adapters').at(-1)?.source ?? '';
  expect(await outputOfModule(source, example(''))).toBe('anna hello\n');
});
