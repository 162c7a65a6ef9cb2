import { once } from 'node:events';
import {
  createServer,
  get,
  Agent as HttpAgent,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
} from 'node:http';
import {
  connect as connectHttp2,
  createServer as createHttp2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from 'node:http2';
import type { AddressInfo, Server as NetServer } from 'node:net';
import * as grpc from '@grpc/grpc-js';
import { type Endpoint, type LoadReport, type Observer, roundRobin, staticEndpoints } from 'evenkeel';
import { serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';
import { createHttp2Client } from 'evenkeel/http2';
import { createAgent } from 'evenkeel/node-http';
import { createBackend } from 'evenkeel/server';
import { createDispatcher, createFetch } from 'evenkeel/undici';
import { Pool } from 'undici';
import { describe, expect, it } from 'vitest';
import { calledAfterEach } from '../../support/opened.js';
import { asIs, bytesMethod } from '../../support/pods/grpc-method.js';
import { until } from '../../support/until.js';
import { bodyOf } from '../http2/support/orders.js';

const origin = 'http://orders.shop:8080';
const ASK = 'endpoint-load-metrics-format';
const SAYS = 'evenkeel-reports';
const REPORT = 'endpoint-load-metrics';
const echo = bytesMethod('/shop.Echo/Echo');

const closing = calledAfterEach();

/** `reports`: with `evenkeel/server`. `plain`: knows nothing of evenkeel. `orca`: sends reports unasked. */
type Kind = 'reports' | 'plain' | 'orca';

interface Served {
  readonly endpoint: { readonly address: string; readonly port: number };
  /** The headers of what came, by name, in order. */
  readonly came: Record<string, unknown>[];
  close(): Promise<void>;
}

type Serve = (kind: Kind, port?: number) => Promise<Served>;

const serveHttp: Serve = async (kind, port = 0) => {
  const came: IncomingHttpHeaders[] = [];
  const pod = createBackend();
  const application = (incoming: IncomingMessage, response: import('node:http').ServerResponse): void => {
    came.push(incoming.headers);
    if (kind === 'orca') response.setHeader(REPORT, 'TEXT named_metrics.evenkeel_in_flight=7');
    response.end('hello');
  };
  const server = createServer(kind === 'reports' ? pod.http(application) : application);
  await listening(server, port);
  const close = async (): Promise<void> => {
    if (!server.listening) return;
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
    await pod.close();
  };
  closing.push(close);
  return { endpoint: { address: '127.0.0.1', port: (server.address() as AddressInfo).port }, came, close };
};

const serveHttp2: Serve = async (kind, port = 0) => {
  const came: IncomingHttpHeaders[] = [];
  const pod = createBackend();
  const application = (incoming: Http2ServerRequest, response: Http2ServerResponse): void => {
    came.push(incoming.headers);
    if (kind === 'orca') response.setHeader(REPORT, 'TEXT named_metrics.evenkeel_in_flight=7');
    response.end('hello');
  };
  const server = createHttp2Server(kind === 'reports' ? pod.http(application) : application);
  const sessions = new Set<ServerHttp2Session>();
  server.on('session', (session) => {
    sessions.add(session);
    session.on('close', () => sessions.delete(session));
  });
  await listening(server, port);
  const close = async (): Promise<void> => {
    if (!server.listening) return;
    server.close();
    for (const session of sessions) session.destroy();
    await once(server, 'close');
    await pod.close();
  };
  closing.push(close);
  return { endpoint: { address: '127.0.0.1', port: (server.address() as AddressInfo).port }, came, close };
};

async function listening(server: NetServer, port: number): Promise<void> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
}

const serveGrpc: Serve = async (kind, port = 0) => {
  const came: Record<string, unknown>[] = [];
  const pod = createBackend();
  const server = new grpc.Server(kind === 'reports' ? { interceptors: [pod.grpc] } : {});
  server.addService(
    { echo },
    {
      echo: (call: grpc.ServerUnaryCall<Buffer, Buffer>, callback: grpc.sendUnaryData<Buffer>) => {
        came.push(call.metadata.toHttp2Headers());
        const trailers = new grpc.Metadata();
        if (kind === 'orca') trailers.set(REPORT, 'TEXT named_metrics.evenkeel_in_flight=7');
        callback(null, call.request, trailers);
      },
    },
  );
  const bound = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${port}`, grpc.ServerCredentials.createInsecure(), (error, given) =>
      error ? reject(error) : resolve(given),
    );
  });
  const close = async (): Promise<void> => {
    server.forceShutdown();
    await pod.close();
  };
  closing.push(close);
  return { endpoint: { address: '127.0.0.1', port: bound }, came, close };
};

interface Options {
  readonly askForReports?: boolean | 'always';
  readonly observer?: Observer;
}

interface Tested {
  readonly serve: Serve;
  /** A client of ours for these pods, one after the other in turn; sends one request. */
  readonly ours: (pods: readonly Pick<Endpoint, 'address' | 'port'>[], options?: Options) => () => Promise<unknown>;
  /** The ordinary client. */
  readonly stock: (port: number) => () => Promise<unknown>;
}

const taking = (pods: readonly Pick<Endpoint, 'address' | 'port'>[]) => ({
  resolver: staticEndpoints(pods),
  picker: roundRobin(),
});

const answered = async (client: import('node:http').ClientRequest): Promise<void> => {
  const [response] = (await once(client, 'response')) as [IncomingMessage];
  response.resume();
  await once(response, 'end');
};

const unary = (client: grpc.Client): Promise<Buffer | undefined> =>
  new Promise((resolve, reject) => {
    client.makeUnaryRequest(echo.path, asIs, asIs, Buffer.from('hello'), (error, value) =>
      error ? reject(error) : resolve(value),
    );
  });

const tested: Record<string, Tested> = {
  undici: {
    serve: serveHttp,
    ours: (pods, options) => {
      const dispatcher = createDispatcher(origin, { ...taking(pods), ...options });
      closing.push(() => dispatcher.destroy());
      return async () => (await dispatcher.request({ path: '/', method: 'GET' })).body.text();
    },
    stock: (port) => {
      const pool = new Pool(`http://127.0.0.1:${port}`);
      closing.push(() => pool.destroy());
      return async () => (await pool.request({ path: '/', method: 'GET' })).body.text();
    },
  },
  fetch: {
    serve: serveHttp,
    ours: (pods, options) => {
      const own = createFetch(origin, { ...taking(pods), ...options });
      closing.push(() => own.close());
      return async () => (await own('/')).text();
    },
    stock: (port) => async () => (await fetch(`http://127.0.0.1:${port}/`)).text(),
  },
  'global fetch': {
    serve: serveHttp,
    ours: (pods, options) => {
      const dispatcher = createDispatcher(origin, { ...taking(pods), ...options });
      closing.push(() => dispatcher.destroy());
      return async () => (await fetch(`${origin}/`, { dispatcher } as never)).text();
    },
    stock: (port) => async () => (await fetch(`http://127.0.0.1:${port}/`)).text(),
  },
  'node:http': {
    serve: serveHttp,
    ours: (pods, options) => {
      const agent = createAgent(origin, { ...taking(pods), ...options });
      closing.push(() => agent.destroy());
      return () => answered(get(`${origin}/`, { agent }));
    },
    stock: (port) => {
      const agent = new HttpAgent({ keepAlive: true });
      closing.push(() => agent.destroy());
      return () => answered(get(`http://127.0.0.1:${port}/`, { agent }));
    },
  },
  'node:http2': {
    serve: serveHttp2,
    ours: (pods, options) => {
      const client = createHttp2Client(origin, { ...taking(pods), ...options });
      closing.push(() => client.close());
      return () => bodyOf(client.request());
    },
    stock: (port) => {
      const session = connectHttp2(`http://127.0.0.1:${port}`);
      closing.push(() => session.destroy());
      return () => bodyOf(session.request());
    },
  },
  'grpc-js': {
    serve: serveGrpc,
    ours: (pods, options) => {
      const client = new grpc.Client(
        serviceTarget('orders.shop:50051'),
        grpc.credentials.createInsecure(),
        serviceChannelOptions({ ...taking(pods), ...options }),
      );
      closing.push(() => client.close());
      return () => unary(client);
    },
    stock: (port) => {
      const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
      closing.push(() => client.close());
      return () => unary(client);
    },
  },
};

async function times(count: number, send: () => Promise<unknown>): Promise<void> {
  for (let request = 0; request < count; request++) await send();
}

const asks = ({ came }: Served): boolean[] => came.map((headers) => ASK in headers);
const names = (headers: Record<string, unknown> | undefined): string[] => Object.keys(headers ?? {}).sort();

describe.each(Object.entries(tested))('%s', (_name, { serve, ours, stock }) => {
  it('sends servers that do not use evenkeel the same headers as the ordinary client', async () => {
    const pods = [await serve('plain'), await serve('plain')];
    await stock(pods[0]!.endpoint.port)();
    const ordinary = names(pods[0]!.came.shift());
    await times(300, ours(pods.map(({ endpoint }) => endpoint)));
    for (const { came } of pods) {
      expect(came.length).toBeGreaterThan(100);
      for (const headers of came) expect(names(headers)).toEqual(ordinary);
    }
  });

  it('requests reports from a server that announces them, from the second request on', async () => {
    const pod = await serve('reports');
    const heard: (LoadReport | undefined)[] = [];
    const attemptEnded: Observer['attemptEnded'] = ({ outcome }) => heard.push(outcome.report);
    await times(4, ours([pod.endpoint], { observer: { attemptEnded } }));
    expect(asks(pod)).toEqual([false, true, true, true]);
    await until('the attempts ended', () => heard.length === 4);
    expect(heard[0]).toBeUndefined();
    for (const report of heard.slice(1)) expect(report?.namedMetrics).toMatchObject({ evenkeel_in_flight: 1 });
  });

  it('requests reports from the servers that announce them, and not from others', async () => {
    const [reports, plain] = [await serve('reports'), await serve('plain')];
    await times(20, ours([reports.endpoint, plain.endpoint]));
    expect(asks(reports)).toEqual([false, ...Array(9).fill(true)]);
    expect(asks(plain)).toEqual(Array(10).fill(false));
  });

  it('starts again when another pod has the same address', async () => {
    const before = await serve('reports');
    const send = ours([before.endpoint]);
    await times(3, send);
    expect(asks(before)).toEqual([false, true, true]);
    await before.close();
    const after = await serve('plain', before.endpoint.port);
    // Requests may begin before the client knows that the old connection is closed.
    for (let tries = 0; tries < 5 && asks(after).at(-1) !== false; tries++) await send().catch(() => {});
    await times(5, send);
    expect(asks(after).slice(-5)).toEqual(Array(5).fill(false));
    await after.close();
    const again = await serve('reports', before.endpoint.port);
    for (let tries = 0; tries < 5 && again.came.length === 0; tries++) await send().catch(() => {});
    await times(5, send);
    expect(asks(again).slice(0, 1)).toEqual([false]);
    expect(asks(again).slice(-4)).toEqual(Array(4).fill(true));
  });

  it('uses load reports that arrive unrequested, and requests none', async () => {
    const pod = await serve('orca');
    const heard: (LoadReport | undefined)[] = [];
    const attemptEnded: Observer['attemptEnded'] = ({ outcome }) => heard.push(outcome.report);
    await times(10, ours([pod.endpoint], { observer: { attemptEnded } }));
    expect(asks(pod)).not.toContain(true);
    await until('the attempts ended', () => heard.length === 10);
    for (const report of heard) expect(report?.namedMetrics).toMatchObject({ evenkeel_in_flight: 7 });
  });

  it('requests reports from every server with `always`, from none with false', async () => {
    const [plain, reports] = [await serve('plain'), await serve('reports')];
    await times(3, ours([plain.endpoint], { askForReports: 'always' }));
    expect(asks(plain)).toEqual([true, true, true]);
    await times(3, ours([reports.endpoint], { askForReports: false }));
    expect(asks(reports)).toEqual([false, false, false]);
  });
});

describe('a server with evenkeel/server', () => {
  /** The header of each of so many responses on one connection. */
  async function said(port: number, requests: number, headers: Record<string, string> = {}): Promise<unknown[]> {
    const agent = new HttpAgent({ keepAlive: true, maxSockets: 1 });
    closing.push(() => agent.destroy());
    const all: unknown[] = [];
    for (let number = 0; number < requests; number++) {
      const [response] = (await once(request({ host: '127.0.0.1', port, agent, headers }).end(), 'response')) as [
        IncomingMessage,
      ];
      all.push(response.headers[SAYS]);
      response.resume();
      await once(response, 'end');
    }
    return all;
  }

  it('announces its reports once per connection, and then in one of 64 responses to requests that ask for none', async () => {
    const { endpoint } = await serveHttp('reports');
    for (let connection = 0; connection < 2; connection++) {
      const all = await said(endpoint.port, 130);
      expect(all.flatMap((value, index) => (value === undefined ? [] : [index]))).toEqual([0, 64, 128]);
      expect(all[0]).toMatch(/^[0-9a-f]{16}$/);
    }
  });

  it('does not announce reports to requests that ask for one, nor with reports: false', async () => {
    const { endpoint } = await serveHttp('reports');
    expect(await said(endpoint.port, 3, { [ASK]: 'TEXT' })).toEqual([undefined, undefined, undefined]);
    const pod = createBackend({ reports: false });
    const server = createServer(pod.http((_request, response) => void response.end()));
    await listening(server, 0);
    closing.push(() => server.close());
    expect(await said((server.address() as AddressInfo).port, 1)).toEqual([undefined]);
  });

  it.each(['undici', 'node:http'])('is not trusted by %s where a gateway passes its announcement on', async (name) => {
    const behind = await serveHttp('reports');
    const came: IncomingHttpHeaders[] = [];
    const gateway = createServer((incoming, response) => {
      came.push(incoming.headers);
      get({ ...{ host: '127.0.0.1', port: behind.endpoint.port }, agent: false }, (answer) => {
        response.writeHead(answer.statusCode as number, answer.headers);
        answer.pipe(response);
      });
    });
    await listening(gateway, 0);
    closing.push(() => {
      gateway.close();
      gateway.closeAllConnections();
    });
    const { port } = gateway.address() as AddressInfo;
    await times(5, (tested[name] as Tested).ours([{ address: '127.0.0.1', port }]));
    expect(came.map((headers) => ASK in headers)).toEqual(Array(5).fill(false));
  });
});

it('a request that moves from a pod that reports to one that does not no longer asks for a report', async () => {
  const plain = await serveHttp('plain');
  const seen: boolean[] = [];
  const pod = createBackend();
  let fails = false;
  const server = createServer(
    pod.http((incoming, response) => {
      seen.push(ASK in incoming.headers);
      if (fails) incoming.socket.destroy();
      else response.end('hello');
    }),
  );
  await listening(server, 0);
  closing.push(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  const send = tested.undici!.ours([{ address: '127.0.0.1', port }, plain.endpoint]);
  await times(4, send);
  expect(seen).toEqual([false, true]);
  fails = true;
  await times(4, send);
  expect(seen.slice(2)).toContain(true);
  expect(asks(plain)).not.toContain(true);
  expect(plain.came.length).toBeGreaterThanOrEqual(5);
});
