import { type ChildProcess, spawn } from 'node:child_process';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { buildPackage } from '../../support/programs/programs.js';
import { until } from '../../support/until.js';
import { atEnd, cleanUpAfterEach } from './harness.js';

cleanUpAfterEach();

beforeAll(buildPackage);

const program = fileURLToPath(new URL('./hostile-server-program.mjs', import.meta.url));

const slice = (address: string, name = 's1'): object => ({
  metadata: { name, resourceVersion: '5', labels: { 'kubernetes.io/service-name': 'orders' } },
  addressType: 'IPv4',
  endpoints: [{ addresses: [address] }],
  ports: [{ name: 'http', port: 80 }],
});
const list = (...items: readonly object[]): string =>
  JSON.stringify({ kind: 'EndpointSliceList', metadata: { resourceVersion: '5' }, items });
const expired = `${JSON.stringify({ type: 'ERROR', object: { kind: 'Status', code: 410 } })}\n`;

/** What the next list or watch is answered with; a list of one pod, and an open watch, where nothing is said. */
class HostileServer {
  readonly #server: Server;
  readonly lists: ((response: ServerResponse) => void)[] = [];
  readonly watches: ((response: ServerResponse) => void)[] = [];
  pod = '10.0.0.1';
  asked = 0;
  #open: ServerResponse | undefined;

  constructor() {
    this.#server = createServer((request, response) => {
      response.on('error', () => {});
      // It has no streaming lists, as older servers have none.
      if (request.url?.includes('sendInitialEvents')) {
        response.writeHead(422).end('{}');
        return;
      }
      this.asked++;
      if (request.url?.includes('watch=true')) {
        const answer = this.watches.shift();
        this.#open = response;
        if (answer !== undefined) answer(response);
        else response.flushHeaders();
      } else {
        const answer = this.lists.shift();
        if (answer !== undefined) answer(response);
        else response.end(list(slice(this.pod)));
      }
    });
    atEnd(() => {
      this.#server.closeAllConnections();
      this.#server.close();
    });
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get watching(): boolean {
    return this.#open !== undefined;
  }

  /** Ends the open watch so that a list follows. */
  expire(): void {
    this.#open?.end(expired);
  }
}

const packed =
  (bytes: Buffer) =>
  (response: ServerResponse): void => {
    response.writeHead(200, { 'content-encoding': 'gzip' });
    response.end(bytes);
  };

/** Each byte in a piece of its own. */
function byteByByte(response: ServerResponse, text: string): void {
  response.flushHeaders();
  const { socket } = response;
  const step = 4_096;
  for (let start = 0; start < text.length; start += step) {
    socket?.write([...text.slice(start, start + step)].map((byte) => `1\r\n${byte}\r\n`).join(''), 'latin1');
  }
}

async function start(server: HostileServer): Promise<{ child: ChildProcess; told: string[] }> {
  const url = await server.listen();
  const child = spawn(process.execPath, ['--max-old-space-size=192', program, url], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  atEnd(() => {
    child.kill('SIGKILL');
  });
  const told: string[] = [];
  let rest = '';
  child.stdout?.on('data', (chunk: Buffer) => {
    const lines = (rest + chunk.toString()).split('\n');
    rest = lines.pop() as string;
    told.push(...lines);
  });
  await until('the watch', () => (told.includes('set 10.0.0.1') && server.watching) || gone(child));
  return { child, told };
}

const gone = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode !== null || signalCode !== null;

describe('a malicious API server, or proxy before it', () => {
  it('sends a line, and a list, byte by byte: both are read in a process of 192 MB', async () => {
    const server = new HostileServer();
    const padding = 'x'.repeat(1_000_000);
    server.watches.push((response) =>
      byteByByte(response, `${JSON.stringify({ type: 'MODIFIED', padding, object: slice('10.0.0.2') })}\n`),
    );
    const { child, told } = await start(server);
    await until('the change', () => told.includes('set 10.0.0.2') || gone(child), 110_000);
    server.lists.push((response) => {
      byteByByte(response, JSON.stringify({ ...JSON.parse(list(slice('10.0.0.3'))), padding }));
      response.socket?.write('0\r\n\r\n');
    });
    server.expire();
    await until('the list', () => told.includes('set 10.0.0.3') || gone(child), 110_000);
    expect([gone(child), told.at(-1)]).toEqual([false, 'set 10.0.0.3']);
  }, 240_000);

  it.each([
    ['128 KB that unpack to 126 MiB', () => gzipSync(Buffer.alloc(126 * 1024 * 1024, ' '), { level: 9 }), /longer/],
    ['brackets, millions deep', () => gzipSync(Buffer.alloc(15 * 1024 * 1024, '[')), /is not JSON/],
    [
      '100,000 slices',
      () => gzipSync(list(...Array.from({ length: 100_000 }, (_, index) => slice('10.0.0.9', `s${index}`)))),
      /longer|more EndpointSlices than we keep/,
    ],
    [
      '60,000 slices, which fit into a list',
      () => gzipSync(list(...Array.from({ length: 60_000 }, (_, index) => slice('10.0.0.9', `s${index}`)))),
      /more EndpointSlices than we keep/,
    ],
    [
      'as many entries as fit, all one address',
      () =>
        gzipSync(
          list({
            ...slice('10.0.0.9'),
            endpoints: Array.from({ length: 300_000 }, () => ({ addresses: ['10.0.0.9'] })),
          }),
        ),
      undefined,
    ],
  ])(
    'sends a list of %s: it is reported, the set stays, and the next list is used',
    async (_, body, why) => {
      const server = new HostileServer();
      const { child, told } = await start(server);
      server.lists.push(packed(body()));
      server.pod = '10.0.0.2';
      server.expire();
      const last = why === undefined ? 'set 10.0.0.9' : 'set 10.0.0.2';
      await until('the next set', () => told.includes(last) || gone(child), 110_000);
      expect(gone(child)).toBe(false);
      // A pod that vanished from a list may linger for a moment.
      const said = told.filter((line) => line !== 'set 10.0.0.1 10.0.0.2');
      if (why !== undefined) expect(said).toEqual(['set 10.0.0.1', expect.stringMatching(why), 'set 10.0.0.2']);
    },
    240_000,
  );

  it('sends a compressed watch unasked: it is not decompressed', async () => {
    const server = new HostileServer();
    const bookmark = `${JSON.stringify({ type: 'MODIFIED', object: slice('10.0.0.66') })}\n`;
    server.watches.push(packed(gzipSync(bookmark)));
    const { child, told } = await start(server);
    await until('it asks again', () => server.asked > 2 || gone(child));
    expect([gone(child), told.filter((line) => line.startsWith('set'))]).toEqual([false, ['set 10.0.0.1']]);
  });
});
