import { once } from 'node:events';
import {
  createServer,
  get,
  type IncomingMessage,
  type RequestListener,
  request,
  type Server,
  ServerResponse,
} from 'node:http';
import { connect as connectHttp2, createServer as createHttp2Server } from 'node:http2';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { parseLoadReport } from 'evenkeel/adapter';
import { type Backend, type BackendOptions, createBackend } from 'evenkeel/server';
import { describe, expect, it } from 'vitest';
import { calledAfterEach } from '../../support/opened.js';
import { until } from '../../support/until.js';

const ASK = 'endpoint-load-metrics-format';
const REPORT = 'endpoint-load-metrics';

const closing = calledAfterEach();

/** A server of node:http whose listener is wrapped. */
async function serve(
  listener: RequestListener,
  options: BackendOptions = {},
): Promise<{ readonly pod: Backend; readonly port: number; readonly server: Server }> {
  const pod = createBackend(options);
  const server = createServer(pod.http(listener));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => pod.close());
  closing.push(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
    await until('no request is in flight', () => pod.inFlight === 0);
  });
  return { pod, port: (server.address() as AddressInfo).port, server };
}

async function answer(
  port: number,
  options: { readonly method?: string; readonly path?: string; readonly ask?: string | undefined } = {},
): Promise<{ readonly response: IncomingMessage; readonly body: string }> {
  const { method = 'GET', path = '/', ask = 'TEXT' } = options;
  const outgoing = request({ port, host: '127.0.0.1', method, path, headers: ask === '' ? {} : { [ASK]: ask } });
  outgoing.end();
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
  let body = '';
  for await (const chunk of response) body += chunk;
  return { response, body };
}

/** Sends bytes, and gathers what comes back. */
async function raw(port: number, text: string): Promise<{ readonly socket: Socket; received(): string }> {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  let received = '';
  socket.on('data', (chunk: Buffer) => {
    received += chunk.toString('latin1');
  });
  socket.on('error', () => {});
  socket.write(text);
  return { socket, received: () => received };
}

const ways: readonly [string, RequestListener][] = [
  ['end', (_request, response) => void response.end('hello')],
  [
    'write',
    (_request, response) => {
      response.write('hel');
      response.end('lo');
    },
  ],
  ['setHeader and end', (_request, response) => void response.setHeader('x-a', '1').end('hello')],
  ['writeHead(status)', (_request, response) => void response.writeHead(200).end('hello')],
  ['writeHead(status, headers)', (_request, response) => void response.writeHead(200, { 'X-A': '1' }).end('hello')],
  ['writeHead(status, message)', (_request, response) => void response.writeHead(200, 'Fine').end('hello')],
  [
    'writeHead(status, message, headers)',
    (_request, response) => void response.writeHead(200, 'Fine', { 'X-A': '1' }).end('hello'),
  ],
  [
    'writeHead(status, list)',
    (_request, response) =>
      void response.writeHead(200, ['X-A', '1', 'Set-Cookie', 'a=1', 'Set-Cookie', 'b=2']).end('hello'),
  ],
  [
    'writeHead(status, pairs)',
    (_request, response) =>
      void response
        .writeHead(200, [
          ['X-A', '1'],
          ['Set-Cookie', 'a=1'],
          ['Set-Cookie', 'b=2'],
        ] as never)
        .end('hello'),
  ],
  [
    'setHeader and writeHead(status, headers)',
    (_request, response) => void response.setHeader('x-b', '2').writeHead(200, { 'X-A': '1' }).end('hello'),
  ],
  [
    'setHeader and writeHead(status, undefined, headers)',
    (_request, response) =>
      void response
        .setHeader('x-b', '2')
        .writeHead(200, undefined as never, { 'X-A': '1' })
        .end('hello'),
  ],
  [
    'flushHeaders and streaming',
    (_request, response) => {
      response.flushHeaders();
      setImmediate(() => {
        response.write('hel');
        setImmediate(() => response.end('lo'));
      });
    },
  ],
  [
    'an early hint before',
    (_request, response) =>
      void response.writeEarlyHints({ link: '</style.css>; rel=preload' }, () => response.end('hello')),
  ],
];

describe('a report in a response of node:http', () => {
  it.each(ways)('written with %s: the report is added, and nothing else changes', async (_name, listener) => {
    const { port } = await serve(listener);
    const asked = await answer(port);
    const plain = await answer(port, { ask: '' });
    expect(asked.body).toBe('hello');
    expect(parseLoadReport(String(asked.response.headers[REPORT]))?.namedMetrics).toMatchObject({
      evenkeel_in_flight: 1,
    });
    // One that does not ask is told that it may.
    expect(plain.response.headers['evenkeel-reports']).toMatch(/^[0-9a-f]{16}$/);
    const ours = ['Date', REPORT, 'evenkeel-reports'];
    const sorted = (list: string[]): string[] =>
      list
        .flatMap((name, index) => (index % 2 === 0 && !ours.includes(name) ? [`${name}: ${list[index + 1]}`] : []))
        .sort();
    expect(sorted(asked.response.rawHeaders)).toEqual(sorted(plain.response.rawHeaders));
    expect(asked.response.statusMessage).toBe(plain.response.statusMessage);
  });

  it("has the requested form: text, or ORCA's message", async () => {
    const { port } = await serve((_request, response) => void response.end());
    const { response: text } = await answer(port, { ask: 'text' });
    expect(text.headers[REPORT]).toMatch(/^TEXT /);
    const { response: bin } = await answer(port, { ask: 'BIN' });
    expect(bin.headers[REPORT]).toBeUndefined();
    expect(Buffer.from(String(bin.headers[`${REPORT}-bin`]), 'base64').toString('latin1')).toContain(
      'evenkeel_in_flight',
    );
  });

  it.each(['', 'XML', 'JSON', 'TEXT, JSON', '1'])('is not sent to a request that asks for %j', async (ask) => {
    const { port } = await serve((_request, response) => void response.end('hello'));
    const { response } = await answer(port, { ask });
    expect(response.rawHeaders.some((name) => name.toLowerCase().startsWith(REPORT))).toBe(false);
  });

  it.each([
    ['HEAD', 200],
    ['GET', 304],
    ['GET', 204],
    ['GET', 500],
  ])('is sent with the response to %s with status %i', async (method, status) => {
    const { port, pod } = await serve((_request, response) => void response.writeHead(status).end());
    const { response } = await answer(port, { method });
    expect(response.headers[REPORT]).toContain('evenkeel_in_flight=1');
    await until('it is over', () => pod.inFlight === 0);
  });

  it('counts all running requests of the process', async () => {
    const waiting: ServerResponse[] = [];
    const { port, pod } = await serve((incoming, response) => {
      if (incoming.url === '/wait') waiting.push(response);
      else response.end();
    });
    const running = [1, 2, 3].map(() => answer(port, { path: '/wait' }));
    await until('three wait', () => waiting.length === 3);
    const { response } = await answer(port);
    expect(response.headers[REPORT]).toContain('evenkeel_in_flight=4');
    expect(pod.inFlight).toBeGreaterThanOrEqual(3);
    for (const one of waiting) one.end();
    await Promise.all(running);
    await until('none runs', () => pod.inFlight === 0);
  });

  it('does not replace a report of the application', async () => {
    const { port } = await serve(
      (_request, response) => void response.setHeader(REPORT, 'TEXT cpu_utilization=0.5').end(),
    );
    const { response } = await answer(port);
    expect(response.headers[REPORT]).toBe('TEXT cpu_utilization=0.5');
  });

  it('is not sent with reports: false, and requests are counted', async () => {
    let seen = 0;
    const { port, pod } = await serve(
      (_request, response) => {
        seen = pod.inFlight;
        response.end();
      },
      { reports: false },
    );
    const { response } = await answer(port);
    expect(response.headers).not.toHaveProperty(REPORT);
    expect(seen).toBe(1);
    expect(pod.load).toEqual({ named_metrics: {} });
  });

  it('is sent once, and counts once, where several layers add it', async () => {
    let seen = 0;
    const { port, pod } = await serve((incoming, response) => {
      pod.express(incoming, response, () => {
        seen = pod.inFlight;
        response.end();
      });
    });
    const { response } = await answer(port);
    expect(seen).toBe(1);
    expect(response.rawHeaders.filter((name) => name === REPORT)).toHaveLength(1);
    await until('none runs', () => pod.inFlight === 0);
  });
});

describe('requests in flight', () => {
  it('end one after the other on a keep-alive connection', async () => {
    const { port, pod } = await serve((_request, response) => void response.end('.'));
    const { socket, received } = await raw(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    for (let answers = 1; answers <= 5; answers++) {
      await until(`${answers} answers`, () => received().split('HTTP/1.1 200').length - 1 === answers);
      await until('none runs', () => pod.inFlight === 0);
      socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    }
    socket.destroy();
  });

  it('end when the client disconnects before the response', async () => {
    const { port, pod } = await serve(() => {});
    const { socket } = await raw(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    await until('it runs', () => pod.inFlight === 1);
    socket.resetAndDestroy();
    await until('it is over', () => pod.inFlight === 0);
  });

  it('end when the client disconnects in the middle of the request, and of the response', async () => {
    const { port, pod } = await serve((incoming, response) => {
      if (incoming.url === '/stream') response.write('a part');
      incoming.resume();
    });
    const posted = await raw(port, 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf');
    const streamed = await raw(port, 'GET /stream HTTP/1.1\r\nHost: a\r\n\r\n');
    await until('both run', () => pod.inFlight === 2 && streamed.received() !== '');
    posted.socket.destroy();
    streamed.socket.destroy();
    await until('both are over', () => pod.inFlight === 0);
  });

  it('end for pipelined requests whose turn never comes', async () => {
    const { port, pod } = await serve(() => {});
    const { socket } = await raw(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(5));
    await until('all came', () => pod.inFlight === 5);
    socket.destroy();
    await until('all are over', () => pod.inFlight === 0);
  });

  it('end in turn for pipelined requests that are answered out of turn', async () => {
    const responses: ServerResponse[] = [];
    const { port, pod } = await serve((_request, response) => void responses.push(response));
    const { socket, received } = await raw(port, `GET / HTTP/1.1\r\nHost: a\r\n${ASK}: TEXT\r\n\r\n`.repeat(3));
    await until('all came', () => responses.length === 3);
    for (const response of responses.reverse()) response.end('.');
    await until('all answered', () => received().split(`${REPORT}: TEXT`).length === 4);
    await until('all are over', () => pod.inFlight === 0);
    socket.destroy();
  });

  it('end when the listener throws an error that is caught and answered with 500', async () => {
    const { port, pod } = await serve((_request, response) => {
      try {
        throw new Error('of the application');
      } catch {
        response.statusCode = 500;
        response.end();
      }
    });
    await answer(port);
    await until('it is over', () => pod.inFlight === 0);
  });

  it('end when the application destroys the response', async () => {
    const { port, pod } = await serve((_request, response) => void response.destroy());
    await expect(answer(port)).rejects.toThrow();
    await until('it is over', () => pod.inFlight === 0);
  });

  it('do not begin in a middleware that runs after the caller has gone', async () => {
    const pod = createBackend();
    closing.push(() => pod.close());
    let late: (() => void) | undefined;
    let isGone = false;
    const { port } = await serve((incoming, response) => {
      incoming.socket.once('close', () => {
        isGone = true;
      });
      late = () => pod.express(incoming, response, () => {});
    });
    const { socket } = await raw(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    await until('it came', () => late !== undefined);
    socket.destroy();
    await until('it has gone', () => isGone);
    late?.();
    expect(pod.inFlight).toBe(0);
  });

  it('end with the connection where the application creates a response for an upgrade', async () => {
    const pod = createBackend();
    closing.push(() => pod.close());
    const server = createServer();
    server.on('upgrade', (incoming, socket) => {
      pod.express(incoming, new ServerResponse(incoming), () => {});
      socket.on('end', () => socket.end()).resume();
      socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    closing.push(() => server.close());
    const { socket, received } = await raw(
      (server.address() as AddressInfo).port,
      'GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n',
    );
    await until('it is open', () => received().includes('101'));
    expect(pod.inFlight).toBe(1);
    socket.destroy();
    await until('it is over', () => pod.inFlight === 0);
  });

  it('do not include upgrades that bypass the backend', async () => {
    const { port, pod, server } = await serve((_request, response) => void response.end());
    server.on(
      'upgrade',
      (_request, socket) =>
        void socket.end('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n'),
    );
    const { received } = await raw(port, 'GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n');
    await until('it is open', () => received().includes('101'));
    expect(pod.inFlight).toBe(0);
  });

  it('are counted correctly through ten thousand requests, some of which are cut', { timeout: 240_000 }, async () => {
    const { port, pod } = await serve((incoming, response) => {
      if (Number(incoming.url?.slice(1)) % 10 === 0) return;
      response.end('.');
    });
    let done = 0;
    const worker = async (first: number): Promise<void> => {
      for (let id = first; id < 10_000; id += 50) {
        await new Promise<void>((resolve) => {
          const outgoing = get({ port, host: '127.0.0.1', path: `/${id}`, headers: { [ASK]: 'TEXT' } }, (response) =>
            response.resume().once('close', resolve),
          );
          outgoing.on('error', () => resolve());
          if (id % 10 === 0) outgoing.once('finish', () => setImmediate(() => outgoing.destroy()));
        });
        done++;
      }
    };
    await Promise.all(Array.from({ length: 50 }, (_, first) => worker(first)));
    expect(done).toBe(10_000);
    await until('none runs', () => pod.inFlight === 0);
  });
});

describe('HTTP/2', () => {
  const serveHttp2 = async (listener: Parameters<Backend['http']>[0]) => {
    const pod = createBackend();
    const server = createHttp2Server(pod.http(listener as never) as never);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const session = connectHttp2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    closing.push(() => pod.close());
    closing.push(async () => {
      session.destroy();
      server.close();
      await until('no request is in flight', () => pod.inFlight === 0);
    });
    return { pod, session };
  };

  it.each([
    ['end', (_request: unknown, response: ServerResponse) => void response.end('hello')],
    [
      'writeHead with headers',
      (_request: unknown, response: ServerResponse) => void response.writeHead(200, { 'x-a': '1' }).end('hello'),
    ],
    [
      'write',
      (_request: unknown, response: ServerResponse) => {
        response.write('hel');
        response.end('lo');
      },
    ],
    [
      'flushHeaders',
      (_request: unknown, response: ServerResponse) => {
        response.flushHeaders();
        setImmediate(() => response.end('hello'));
      },
    ],
  ])('carries a report with %s', async (_name, listener) => {
    const { pod, session } = await serveHttp2(listener as never);
    for (const ask of ['TEXT', undefined]) {
      const stream = session.request({ ':path': '/', ...(ask && { [ASK]: ask }) });
      const [headers] = (await once(stream, 'response')) as [Record<string, string>];
      let body = '';
      for await (const chunk of stream) body += chunk;
      expect(body).toBe('hello');
      if (ask) expect(headers[REPORT]).toContain('evenkeel_in_flight=1');
      else expect(headers[REPORT]).toBeUndefined();
    }
    await until('none runs', () => pod.inFlight === 0);
  });

  it('ends requests whose stream is reset', async () => {
    const { pod, session } = await serveHttp2(() => {});
    const stream = session.request({ ':path': '/' });
    stream.on('error', () => {});
    await until('it runs', () => pod.inFlight === 1);
    stream.close(8);
    await until('it is over', () => pod.inFlight === 0);
  });
});
