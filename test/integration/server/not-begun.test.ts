import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request as send } from 'node:http';
import {
  type ClientHttp2Session,
  connect as connectHttp2,
  createServer as createHttp2Server,
  type OutgoingHttpHeaders,
} from 'node:http2';
import type { AddressInfo, Server, Socket } from 'node:net';
import * as grpc from '@grpc/grpc-js';
import { fixed, roundRobin, staticEndpoints } from 'evenkeel';
import { serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';
import { createHttp2Client } from 'evenkeel/http2';
import { createAgent } from 'evenkeel/node-http';
import { createBackend } from 'evenkeel/server';
import { createDispatcher, createFetch } from 'evenkeel/undici';
import { describe, expect, it } from 'vitest';
import { addressMark, connectionMark } from '../../../src/propagation/not-begun.js';
import { calledAfterEach } from '../../support/opened.js';
import { asIs, bytesMethod } from '../../support/pods/grpc-method.js';
import { until } from '../../support/until.js';

const origin = 'http://orders.shop:8080';
const NOT_BEGUN = 'evenkeel-not-begun';
const REPORTS = 'evenkeel-reports';
const GATEWAY = 'x-gateway';
const closing = calledAfterEach();

/** What the caller of a request gets. */
interface Answer {
  readonly status: number;
  /** The names of the headers, in every form in which the client shows them. */
  readonly names: readonly string[];
}
/** Sends a POST with a body. */
type Post = (path: string) => Promise<Answer>;
type ClientOf = (ports: readonly number[]) => Post;

const taking = (ports: readonly number[]) => ({
  resolver: staticEndpoints(ports.map((port) => ({ address: '127.0.0.1', port }))),
  picker: roundRobin(),
});
const method = 'POST';
const body = 'an order';

const undiciOver =
  (more: object): ClientOf =>
  (ports) => {
    const dispatcher = createDispatcher(origin, { ...taking(ports), ...more });
    closing.push(() => dispatcher.destroy());
    return (path) =>
      new Promise((resolve, reject) => {
        let answer: Answer | undefined;
        dispatcher.dispatch(
          { path, method, body },
          {
            onRequestStart: () => {},
            onResponseStart: (controller, status, headers) => {
              const { rawHeaders } = controller;
              const raw = Array.isArray(rawHeaders) ? rawHeaders.map(String) : Object.keys(rawHeaders ?? {});
              answer = { status, names: [...Object.keys(headers), ...raw] };
            },
            // undici 8 refuses a handler without it.
            onResponseData: () => {},
            onResponseEnd: () => resolve(answer as Answer),
            onResponseError: (_controller, error) => reject(error),
          },
        );
      });
  };

const http1Clients: Record<string, ClientOf> = {
  undici: undiciOver({}),
  'undici, hedged': undiciOver({ hedge: { afterMs: 3_600_000 }, retry: { methods: ['GET', 'POST'] } }),
  'undici in the older form': (ports) => {
    const dispatcher = createDispatcher(origin, taking(ports));
    closing.push(() => dispatcher.destroy());
    return (path) =>
      new Promise((resolve, reject) => {
        let answer: Answer | undefined;
        const older = {
          onConnect: () => {},
          onHeaders: (status: number, raw: readonly Buffer[]) => {
            answer = { status, names: raw.map(String) };
            return true;
          },
          onData: () => true,
          onComplete: () => resolve(answer as Answer),
          onError: reject,
        };
        dispatcher.dispatch({ path, method, body }, older as never);
      });
  },
  fetch: (ports) => {
    const own = createFetch(origin, taking(ports));
    closing.push(() => own.close());
    return async (path) => {
      const response = await own(path, { method, body });
      await response.text();
      return { status: response.status, names: [...response.headers.keys()] };
    };
  },
  'node:http': (ports) => {
    const agent = createAgent(origin, taking(ports));
    closing.push(() => agent.destroy());
    return async (path) => {
      const asked = send(`${origin}${path}`, { agent, method }).end(body);
      const [response] = (await once(asked, 'response')) as [IncomingMessage];
      response.resume();
      await once(response, 'end');
      const { statusCode = 0, headers, headersDistinct, rawHeaders } = response;
      return { status: statusCode, names: [...Object.keys(headers), ...Object.keys(headersDistinct), ...rawHeaders] };
    };
  },
};

const http2Clients: Record<string, ClientOf> = {
  'node:http2': (ports) => {
    const client = createHttp2Client(origin, taking(ports));
    closing.push(() => client.close());
    return async (path) => {
      const stream = client.request({ ':method': method, ':path': path }).end(body);
      const [headers, , raw] = (await once(stream, 'response')) as [IncomingHttpHeaders, number, string[]];
      stream.resume();
      if (!stream.readableEnded) await once(stream, 'end');
      return { status: Number(headers[':status']), names: [...Object.keys(headers), ...raw] };
    };
  },
};

async function listening(server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return (server.address() as AddressInfo).port;
}

const overHttp = { name: 'HTTP/1.1', create: createServer, clients: http1Clients } as const;
const overHttp2 = {
  name: 'HTTP/2',
  create: createHttp2Server as unknown as typeof createServer,
  clients: http2Clients,
} as const;

describe.each([overHttp, overHttp2])('over $name', ({ create, clients }) => {
  it.each(Object.entries(clients))(
    '%s: callers see none of the headers that evenkeel reads',
    async (_name, clientOf) => {
      const port = await listening(
        create((request, response) => {
          request.resume();
          const status = request.url === '/refused' ? 503 : 200;
          response.writeHead(status, { [NOT_BEGUN]: 'a mark', 'x-own': 'theirs', [REPORTS]: 'another' });
          response.end('done');
        }),
      );
      const post = clientOf([port]);
      for (const path of ['/', '/refused']) {
        const { status, names } = await post(path);
        expect(status).toBe(path === '/' ? 200 : 503);
        expect(names.map((name) => name.toLowerCase())).toContain('x-own');
        expect(names.filter((name) => /^evenkeel-/i.test(name))).toEqual([]);
      }
    },
  );

  /**
   * Gateways to one server behind them. They pass on the headers of requests and responses as they are, as most gateways do, and which of
   * them it is.
   */
  async function gatewaysTo(behind: number, count: number): Promise<number[]> {
    const ports = Array.from({ length: count }, async () => {
      let session: ClientHttp2Session | undefined;
      const server = create((request, response) => {
        if (create === createServer) {
          const { url, method: asked } = request;
          const headers = { ...request.headers, [GATEWAY]: request.socket.localPort };
          const passed = send({ host: '127.0.0.1', port: behind, path: url, method: asked, headers }, (answer) => {
            response.writeHead(answer.statusCode ?? 500, answer.headers);
            answer.pipe(response);
          });
          request.pipe(passed);
          return;
        }
        session ??= connectHttp2(`http://127.0.0.1:${behind}`);
        const headers = { ...request.headers, [GATEWAY]: request.socket.localPort } as OutgoingHttpHeaders;
        const passed = session.request(headers);
        passed.on('response', ({ ':status': status = 500, ...headers }) => {
          response.writeHead(status, headers);
          passed.pipe(response);
        });
        request.pipe(passed as never);
      });
      closing.push(() => session?.destroy());
      return listening(server);
    });
    return Promise.all(ports);
  }

  it.each(Object.entries(clients))(
    '%s: a server behind gateways that has processed a POST does not get it again',
    async (_name, clientOf) => {
      let processed = 0;
      let forge: (gateway: number, port: number, gatewaysPort: number) => string = () => '';
      const behind = await listening(
        create((request, response) => {
          request.resume();
          request.on('end', () => {
            processed++;
            const { localPort = 0, remotePort = 0 } = request.socket;
            response.writeHead(503, { [NOT_BEGUN]: forge(Number(request.headers[GATEWAY]), localPort, remotePort) });
            response.end('no');
          });
        }),
      );
      const gateways = await gatewaysTo(behind, 3);
      const forgeries: (typeof forge)[] = [
        (gateway) => addressMark('127.0.0.1', gateway),
        (gateway, port) => connectionMark('127.0.0.1', gateway, port),
        (gateway, _port, gatewaysPort) => connectionMark('127.0.0.1', gateway, gatewaysPort),
        (_gateway, port, gatewaysPort) => connectionMark('127.0.0.1', port, gatewaysPort),
      ];
      for (forge of forgeries) {
        const post = clientOf(gateways);
        for (let sent = 0; sent < 6; sent++) {
          const before = processed;
          expect((await post('/')).status).toBe(503);
          expect(processed).toBe(before + 1);
        }
      }
    },
  );

  it.each(Object.entries(clients).filter(([name]) => name !== 'node:http'))(
    '%s: what a gateway itself has not begun moves on, and what a server behind it has refused does not',
    async (_name, clientOf) => {
      const last = createBackend({ limit: fixed(1), maxWaiting: 0 });
      const first = createBackend({ limit: fixed(1), maxWaiting: 0 });
      closing.push(
        () => last.close(),
        () => first.close(),
      );
      const held: (() => void)[] = [];
      const hold = (_request: unknown, response: { end(text: string): void }): void => {
        held.push(() => response.end('held'));
      };
      const behind = await listening(create(last.http(hold)));
      const ofOurs =
        create === createServer ? (http1Clients.undici as ClientOf) : (http2Clients['node:http2'] as ClientOf);
      const onwards = ofOurs([behind]);
      let asked = 0;
      const gateway = await listening(
        create(
          first.http((request, response) => {
            if (request.url === '/held') return hold(request, response);
            asked++;
            request.resume();
            void onwards(request.url ?? '/').then(({ status, names }) => {
              // It passes on every header it sees.
              for (const name of names)
                if (/^[a-z][a-z-]*$/.test(name) && !response.hasHeader(name)) response.setHeader(name, 'x');
              for (const name of ['content-length', 'connection', 'transfer-encoding', 'keep-alive'])
                response.removeHeader(name);
              response.statusCode = status;
              response.end('passed on');
            });
          }),
        ),
      );
      const free = await listening(create((_request, response) => void response.end('free')));
      // The server behind it is full.
      void onwards('/held').catch(() => {});
      await until('the last one is full', () => held.length === 1);
      const post = clientOf([gateway, free]);
      const statuses = [(await post('/1')).status, (await post('/2')).status].sort();
      expect([statuses, asked]).toEqual([[200, 503], 1]);
      // Now it is full itself.
      void ofOurs([gateway])('/held').catch(() => {});
      await until('the gateway is full', () => held.length === 2);
      expect([(await post('/3')).status, (await post('/4')).status, asked]).toEqual([200, 200, 1]);
      for (const answer of held) answer();
    },
  );
});

it('grpc-js: callers see none of the trailers that evenkeel reads', async () => {
  const echo = bytesMethod('/shop.Echo/Echo');
  const server = new grpc.Server();
  server.addService(
    { echo },
    {
      echo: (call: grpc.ServerUnaryCall<Buffer, Buffer>, callback: grpc.sendUnaryData<Buffer>) => {
        const trailers = new grpc.Metadata();
        for (const name of [NOT_BEGUN, REPORTS, 'x-own']) trailers.set(name, 'a value');
        if (String(call.request) === 'well') callback(null, call.request, trailers);
        else callback({ code: grpc.status.RESOURCE_EXHAUSTED, metadata: trailers });
      },
    },
  );
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  closing.push(() => server.forceShutdown());
  const client = new grpc.Client(
    serviceTarget('orders.shop:50051'),
    grpc.credentials.createInsecure(),
    serviceChannelOptions(taking([port])),
  );
  closing.push(() => client.close());
  for (const word of ['well', 'too much']) {
    const ended = await new Promise<grpc.StatusObject>((resolve) => {
      const call = client.makeUnaryRequest(echo.path, asIs, asIs, Buffer.from(word), () => {});
      call.on('status', resolve);
    });
    expect(ended.code).toBe(word === 'well' ? grpc.status.OK : grpc.status.RESOURCE_EXHAUSTED);
    expect(Object.keys(ended.metadata.getMap()).filter((name) => /^(evenkeel|x-own)/.test(name))).toEqual(['x-own']);
  }
});
