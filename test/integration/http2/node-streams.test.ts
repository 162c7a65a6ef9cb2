import { once } from 'node:events';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  createServer,
  type Http2Server,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import { roundRobin, staticEndpoints } from 'evenkeel';
import { createHttp2Client, type ServiceHttp2Client } from 'evenkeel/http2';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/until.js';
import { bodyOf, connected } from './support/orders.js';

let servers: Http2Server[];
let ports: number[];
let session: ClientHttp2Session;
let orders: ServiceHttp2Client;
/** The codes with which the servers' streams were closed, oldest first. */
const codes: number[] = [];

const replies: Readonly<Record<string, (stream: ServerHttp2Stream) => void>> = {
  '/empty': (stream) => stream.respond({ ':status': 204 }, { endStream: true }),
  '/head': (stream) => stream.respond({ ':status': 200, 'content-length': 5 }, { endStream: true }),
  '/whole': (stream) => {
    stream.respond({ ':status': 200, 'Set-Cookie': ['a=1', 'b=2'] }, { waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers({ 'x-end': ['one', 'two'] }));
    stream.end('whole');
  },
  '/hold': () => {},
  '/part': (stream) => {
    stream.respond({ ':status': 200 });
    stream.write('part');
  },
  '/early': (stream) => {
    stream.respond({ ':status': 413 });
    stream.end('too large');
  },
  '/reset/0': (stream) => stream.close(0),
  '/reset/2': (stream) => stream.close(2),
  '/reset/8': (stream) => stream.close(8),
};

beforeAll(async () => {
  servers = [createServer(), createServer()];
  for (const server of servers) {
    server.on('stream', (stream, headers) => {
      stream.on('error', () => {});
      stream.on('close', () => codes.push(stream.rstCode));
      replies[headers[':path'] as string]?.(stream);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  }
  ports = servers.map((server) => (server.address() as AddressInfo).port);
  session = connect(`http://127.0.0.1:${ports[0]}`);
  await once(session, 'remoteSettings');
  orders = overPods();
  await connected(orders, servers.length);
});

afterAll(async () => {
  await orders.close();
  session.destroy();
  for (const server of servers) server.close();
});

const overPods = (): ServiceHttp2Client =>
  createHttp2Client('http://orders.shop:8080', {
    picker: roundRobin(),
    resolver: staticEndpoints(ports.map((port) => ({ address: '127.0.0.1', port }))),
  });

const names = ['continue', 'headers', 'response', 'trailers', 'wantTrailers', 'aborted', 'error', 'end', 'finish'];

interface Case {
  readonly title: string;
  readonly headers: Readonly<Record<string, string>>;
  /** What the caller does with its stream, besides listening to events. */
  readonly use?: (stream: ClientHttp2Stream, signal: AbortController) => void;
}

const cases: readonly Case[] = [
  { title: 'gets a response with trailers', headers: { ':path': '/whole' }, use: (stream) => stream.resume() },
  { title: 'gets a response without a body, which nobody reads', headers: { ':path': '/empty' } },
  { title: 'gets the response to a HEAD, which nobody reads', headers: { ':method': 'HEAD', ':path': '/head' } },
  {
    title: 'gets a response before its request is complete',
    headers: { ':method': 'POST', ':path': '/early' },
    use: (stream) => stream.resume().write('a part'),
  },
  {
    title: 'is written to after its end',
    headers: { ':path': '/whole' },
    use: (stream) => {
      stream.resume();
      stream.write('too late');
    },
  },
  {
    title: 'is closed before its response, while nobody reads',
    headers: { ':path': '/hold' },
    use: (stream) => setImmediate(() => stream.close()),
  },
  {
    title: 'is closed with CANCEL before its response, while nobody reads',
    headers: { ':path': '/hold' },
    use: (stream) => setImmediate(() => stream.close(8)),
  },
  {
    title: 'is closed in the middle of its response',
    headers: { ':path': '/part' },
    use: (stream) => stream.once('data', () => stream.close()),
  },
  {
    title: 'is destroyed in the middle of its response',
    headers: { ':path': '/part' },
    use: (stream) => stream.once('data', () => stream.destroy()),
  },
  {
    title: 'is aborted by its signal in the middle of its response',
    headers: { ':path': '/part' },
    use: (stream, abort) => stream.once('data', () => abort.abort()),
  },
  ...[0, 2, 8].flatMap((code): Case[] => [
    { title: `is reset with ${code}`, headers: { ':path': `/reset/${code}` }, use: (stream) => stream.resume() },
    {
      title: `is reset with ${code} before it is complete`,
      headers: { ':method': 'POST', ':path': `/reset/${code}` },
      use: (stream) => stream.resume().write('a part'),
    },
  ]),
];

/** What a stream emits until it is closed, and the code with which the server's stream was closed. */
async function storyOf(client: Pick<ServiceHttp2Client, 'request'>, { headers, use }: Case): Promise<unknown[]> {
  const abort = new AbortController();
  const seen = codes.length;
  const stream = client.request(headers, { signal: abort.signal });
  const events: unknown[] = [];
  for (const name of names) {
    stream.on(name, (...values: unknown[]) => {
      events.push([name, ...values.map((value) => (value instanceof Error ? value.message : withoutDate(value)))]);
    });
  }
  use?.(stream, abort);
  await new Promise((closed) => stream.once('close', closed));
  await until('the server has closed it', () => codes.length > seen);
  return [...events, stream.rstCode, stream.aborted, stream.endAfterHeaders, codes.at(-1)];
}

function withoutDate(value: unknown): unknown {
  if (Array.isArray(value)) return value.filter((text, index) => text !== 'date' && value[index - 1] !== 'date');
  if (typeof value !== 'object') return value;
  const { date, ...others } = value as Readonly<Record<string, unknown>>;
  return others;
}

describe('a stream behaves as on a session of Node when it', () => {
  it.each(cases)('$title', async (one) => {
    const expected = await storyOf(session as Pick<ServiceHttp2Client, 'request'>, one);
    expect(await storyOf(orders, one)).toEqual(expected);
  });
});

describe('a request', () => {
  it('may have its headers in a list, on every Node', async () => {
    const stream = orders.request([':path', '/whole', 'X-Twice', 'one', 'x-twice', 'two']);
    stream.resume();
    await once(stream, 'response');
    expect(stream.sentHeaders).toMatchObject({ ':path': '/whole', 'x-twice': ['one', 'two'] });
    await once(stream, 'close');
  });

  it('emits ready when a pod has it', async () => {
    await using late = overPods();
    const stream = late.request({ ':path': '/whole' });
    await once(stream, 'ready');
    expect([stream.pending, typeof stream.id]).toEqual([false, 'number']);
    expect(await bodyOf(stream)).toBe('whole');
  });

  it('with a name that is no token fails with the error of Node, and ends no session of another pod', async () => {
    await using both = overPods();
    await connected(both, 2);
    const held = [both.request({ ':path': '/part' }), both.request({ ':path': '/part' })];
    for (const stream of held) await once(stream, 'data');
    const failed = held.map((stream) => once(stream, 'error').catch(() => undefined));
    await expect(bodyOf(both.request({ 'not a name': '1' }))).rejects.toMatchObject({
      code: 'ERR_INVALID_HTTP_TOKEN',
    });
    // Node 20 ends the session on which it was sent.
    expect(held.filter((stream) => !stream.destroyed).length).toBeGreaterThan(0);
    for (const stream of held) stream.destroy(new Error('the test is over'));
    await Promise.all(failed);
  });
});
