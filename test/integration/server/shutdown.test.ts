import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent, createServer, request as httpRequest } from 'node:http';
import { connect as connectHttp2, createServer as createHttp2Server } from 'node:http2';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { Client, credentials, type ServiceError } from '@grpc/grpc-js';
import { gracefulShutdown, type ShutdownOptions } from 'evenkeel/server';
import { createConnector } from 'evenkeel/tcp';
import { FakeResolver } from 'evenkeel/testing';
import { createWebSockets } from 'evenkeel/ws';
import { Pool } from 'undici';
import { afterEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { createCertificate } from '../../servers/index.js';
import { until } from '../../support/until.js';

interface LeavingPod {
  readonly child: ChildProcess;
  readonly port: number;
  readonly grpcPort: number;
  readonly tcpPort: number;
  readonly exited: Promise<number | null>;
}

const started: ChildProcess[] = [];
afterEach(() => {
  for (const child of started.splice(0)) if (child.exitCode === null) child.kill('SIGKILL');
});

async function start(options: ShutdownOptions, kind: 'http' | 'http2' = 'http'): Promise<LeavingPod> {
  const program = fileURLToPath(new URL('support/leaving-pod.mjs', import.meta.url));
  const child = fork(program, [JSON.stringify(options), kind], { execArgv: [] });
  started.push(child);
  const exited = once(child, 'exit').then(([code]) => code as number | null);
  const [ports] = (await once(child, 'message')) as [Pick<LeavingPod, 'port' | 'grpcPort' | 'tcpPort'>];
  return { child, ...ports, exited };
}

/** Status of a probe, on a connection of its own. */
async function probe(port: number, path: string): Promise<number> {
  const request = httpRequest({ port, path, agent: false }).end();
  const [answer] = await once(request, 'response');
  answer.resume();
  return answer.statusCode;
}

/** What the answer to a kept connection says about it. */
async function connectionOf(port: number): Promise<string | undefined> {
  const agent = new Agent({ keepAlive: true });
  const request = httpRequest({ port, path: '/live', agent }).end();
  const [answer] = await once(request, 'response');
  answer.resume();
  agent.destroy();
  return answer.headers.connection;
}

/** One POST; its status, or how it failed. */
function post(agent: Agent, port: number, path = '/'): Promise<number | string> {
  return new Promise((resolve) => {
    const request = httpRequest({ port, path, agent, method: 'POST' }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode ?? 0));
    });
    request.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    request.end('an order');
  });
}

/** A connection that gets back what it sends. */
interface Echo {
  send(text: string): void;
  close(): void;
}
type Open = (leaving: () => void, got: (text: string) => void) => Promise<Echo>;

function openWebSockets(resolver: FakeResolver) {
  const chat = createWebSockets('ws://chat.shop', { resolver, leaveSpreadMs: 500 });
  const open: Open = async (leaving, got) => {
    const socket = new chat.WebSocket('ws://chat.shop');
    socket.on('leaving' as 'open', leaving);
    socket.on('message', (message) => got(String(message)));
    await once(socket, 'open');
    return { send: (text) => socket.send(text), close: () => socket.close(1000) };
  };
  return { open, close: () => chat.close({ signal: AbortSignal.abort() }) };
}

function openTcp(resolver: FakeResolver) {
  const broker = createConnector('chat.shop:80', { resolver, leaveSpreadMs: 500 });
  const open: Open = async (leaving, got) => {
    const socket = await broker.connect({ onLeaving: leaving });
    // One message is on its way at a time.
    socket.on('data', (bytes) => got(String(bytes)));
    socket.on('error', () => {});
    return { send: (text) => socket.write(text), close: () => socket.end() };
  };
  return { open, close: () => broker.close({ signal: AbortSignal.abort() }) };
}

/** Sends one message after the other, and moves when it is told that its pod leaves. */
class Caller {
  readonly #open: Open;
  answered = 0;
  #sent = 0;
  isOver = false;

  constructor(open: Open) {
    this.#open = open;
  }

  /** Messages that were not answered. */
  get lost(): number {
    return this.#sent - this.answered;
  }

  async move(): Promise<void> {
    let isLeaving = false;
    let echo: Echo | undefined;
    const next = (): void => {
      if (isLeaving) {
        echo?.close();
        void this.move();
      } else if (this.isOver) echo?.close();
      else {
        this.#sent++;
        echo?.send(`message ${this.#sent}`);
      }
    };
    echo = await this.#open(
      () => {
        isLeaving = true;
      },
      (text) => {
        if (text !== `message ${this.#sent}`) return;
        this.answered++;
        next();
      },
    );
    next();
  }
}

describe('connections that are idle when a pod begins to shut down', () => {
  it('stay open longer than Node keeps them, and are closed by the answer to their next request', async () => {
    const server = createServer((request, response) => {
      request.resume();
      response.end('ok');
    });
    // Later versions of Node add a second.
    server.keepAliveTimeout = 100;
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as AddressInfo;
    const shutdown = gracefulShutdown({ http: server, signals: [], exit: false, delayMs: 1_500, idleMs: 60_000 });
    const socket = connect(port, '127.0.0.1');
    const ask = async (): Promise<string> => {
      socket.write('GET / HTTP/1.1\r\nHost: pod\r\n\r\n');
      const [chunk] = (await once(socket, 'data')) as [Buffer];
      return String(chunk);
    };
    expect(await ask()).toMatch(/connection: keep-alive/i);
    const over = shutdown.begin();
    await until('new connections are told', async () => {
      const request = httpRequest({ port, agent: new Agent({ keepAlive: true }) }).end();
      const [answer] = await once(request, 'response');
      answer.resume();
      request.destroy();
      return answer.headers.connection === 'close';
    });
    expect(await ask()).toMatch(/connection: close/i);
    await once(socket, 'close');
    void shutdown.begin();
    await over;
  });
});

describe('a pod that shuts down', () => {
  it('is ready when the application says so, for as long as it listens, and is alive longer', async () => {
    const { child, port, exited } = await start({ delayMs: 200, idleMs: 600_000, drainTimeoutMs: 3_600_000 });
    expect(await probe(port, '/ready')).toBe(503);
    expect(await probe(port, '/live')).toBe(200);
    expect(await probe(port, '/started')).toBe(503);
    child.send('ready');
    await once(child, 'message');
    expect(await probe(port, '/ready')).toBe(200);
    child.kill('SIGTERM');
    await until('it says that it leaves', async () => (await connectionOf(port)) === 'close');
    expect(await probe(port, '/ready')).toBe(200);
    expect(await probe(port, '/live')).toBe(200);
    expect(await probe(port, '/started')).toBe(200);
    // It stops listening.
    child.kill('SIGTERM');
    expect(await exited).toBe(0);
  });

  it('answers every request of callers that do not yet know that it leaves: POSTs over kept connections, and new connections', async () => {
    const { child, port, exited } = await start({ delayMs: 300, idleMs: 600_000, drainTimeoutMs: 3_600_000 });
    const agent = new Agent({ keepAlive: true });
    const undici = new Pool(`http://127.0.0.1:${port}`, { connections: 4 });
    const ends: (number | string)[] = [];
    let isLeaving = false;
    const caller = async (): Promise<void> => {
      while (!isLeaving) ends.push(await post(agent, port));
      // The pod has heard, and says it with each answer.
      for (let more = 0; more < 20; more++) ends.push(await post(agent, port));
    };
    const callers = Array.from({ length: 8 }, caller);
    const pooled = async (): Promise<void> => {
      while (!isLeaving) {
        const { statusCode, body } = await undici.request({ path: '/', method: 'POST', body: 'an order' });
        await body.dump();
        ends.push(statusCode);
      }
    };
    callers.push(...Array.from({ length: 4 }, pooled));
    await until('requests are answered', () => ends.length > 200);
    child.kill('SIGTERM');
    await until('more requests are answered', () => ends.length > 400);
    isLeaving = true;
    await Promise.all(callers);
    expect(ends.filter((end) => end !== 200)).toEqual([]);
    agent.destroy();
    await undici.close();
    child.kill('SIGTERM');
    expect(await exited).toBe(0);
  });

  it('lets running requests finish, tells their callers not to come back, and then exits', async () => {
    const { child, port, exited } = await start({ delayMs: 0, idleMs: 0 });
    const agent = new Agent({ keepAlive: true });
    let connection: string | undefined;
    const answered = new Promise<void>((resolve) => {
      httpRequest({ port, path: '/?ms=3000', agent }, (answer) => {
        connection = answer.headers.connection;
        answer.resume().on('end', resolve);
      }).end();
    });
    await until('it has arrived', () => Object.keys(agent.sockets).length === 1);
    expect(await probe(port, '/live')).toBe(200);
    child.kill('SIGTERM');
    await answered;
    expect(connection).toBe('close');
    expect(await exited).toBe(0);
  });

  it('cuts what still runs when its time is over, and exits with 0', async () => {
    const { child, port, exited } = await start({ delayMs: 0, idleMs: 0, drainTimeoutMs: 500 });
    const agent = new Agent();
    const cut = post(agent, port, '/?ms=60000');
    const silent = connect(port, '127.0.0.1');
    silent.on('error', () => {});
    await once(silent, 'connect');
    expect(await probe(port, '/live')).toBe(200);
    child.kill('SIGTERM');
    expect(await cut).toBe('ECONNRESET');
    expect(await exited).toBe(0);
  });

  it('refuses an HTTP server passed as one of another protocol', () => {
    for (const tcp of [createServer(), createHttp2Server()])
      expect(() => gracefulShutdown({ tcp, signals: [] })).toThrow(
        expect.objectContaining({ code: 'EVENKEEL_OPTION' }),
      );
  });

  it('says Connection: close over TLS, also to clients still in their handshake', async () => {
    const { cert, key } = createCertificate({ commonName: 'pod', hosts: ['pod'] });
    const tcp = createTlsServer({ cert, key }, (socket) => void socket.on('error', () => {}).resume());
    await once(tcp.listen(0, '127.0.0.1'), 'listening');
    const { port } = tcp.address() as AddressInfo;
    const times = { delayMs: 0, idleMs: 0, leaveMs: 0 };
    const finish = (socket: Socket): void => void socket.end('bye');
    const shutdown = gracefulShutdown({ tcp, finish, ...times, signals: [], exit: false });
    const whole = async (socket: Socket): Promise<string> => {
      let text = '';
      for await (const chunk of socket) text += chunk;
      return text;
    };
    const early = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
    const slow = connect(port, '127.0.0.1');
    await Promise.all([once(early, 'secureConnect'), once(slow, 'connect')]);
    await until(
      'both are there',
      () => new Promise((resolve) => tcp.getConnections((_, count) => resolve(count === 2))),
    );
    const over = shutdown.begin();
    expect(await whole(early)).toBe('bye');
    const late = connectTls({ socket: slow, rejectUnauthorized: false });
    expect(await whole(late)).toBe('bye');
    await over;
  });

  it('hurries after a second signal', async () => {
    const { child, port, exited } = await start({ delayMs: 600_000, idleMs: 600_000, drainTimeoutMs: 3_600_000 });
    child.kill('SIGTERM');
    await until('it has heard', async () => (await probe(port, '/leaving')) === 200);
    child.kill('SIGTERM');
    expect(await exited).toBe(0);
  });

  it('closes 50 WebSockets with code 1012, one after the other', async () => {
    const { child, port, exited } = await start({ delayMs: 0, idleMs: 500, leaveMs: 0 });
    const codes: number[] = [];
    const sockets = Array.from({ length: 50 }, () => new WebSocket(`ws://127.0.0.1:${port}`));
    await Promise.all(sockets.map((socket) => once(socket, 'open')));
    for (const socket of sockets) socket.on('close', (code) => codes.push(code));
    child.kill('SIGTERM');
    expect(await exited).toBe(0);
    await until('all are closed', () => codes.length === 50);
    expect(new Set(codes)).toEqual(new Set([1012]));
  });

  it('closes connections of other protocols as the application says, and stops listening', async () => {
    const { child, tcpPort, exited } = await start({ delayMs: 0, idleMs: 300, leaveMs: 0 });
    const said: string[] = [];
    const sockets = Array.from({ length: 20 }, () => connect(tcpPort, '127.0.0.1'));
    const ended = sockets.map(async (socket) => {
      socket.write('hello ');
      let all = '';
      for await (const chunk of socket) {
        all += chunk;
        if (all === 'hello ') said.push(all);
      }
      return all;
    });
    await until('all are served', () => said.length === 20);
    child.kill('SIGTERM');
    expect(await Promise.all(ended)).toEqual(Array(20).fill('hello bye\n'));
    expect(await exited).toBe(0);
  });

  it.each(['WebSockets', 'TCP'] as const)(
    '%s: clients that leave by themselves lose no message, and it waits no longer than they take',
    async (protocol) => {
      const hour = { leaveMs: 3_600_000, drainTimeoutMs: 7_300_000 };
      const pods = await Promise.all([start({ delayMs: 0, idleMs: 0, ...hour }), start({})]);
      const endpoints = pods.map(({ port, tcpPort }) => ({
        address: '127.0.0.1',
        port: protocol === 'TCP' ? tcpPort : port,
      }));
      const resolver = new FakeResolver();
      const opener = (protocol === 'TCP' ? openTcp : openWebSockets)(resolver);
      resolver.update(...endpoints);
      const callers = Array.from({ length: 12 }, () => new Caller(opener.open));
      await Promise.all(callers.map((caller) => caller.move()));
      await until('messages are answered', () => callers.every(({ answered }) => answered > 20));
      const [leaving, staying] = pods;
      leaving?.child.kill('SIGTERM');
      resolver.update(endpoints[1] as (typeof endpoints)[number]);
      expect(await leaving?.exited).toBe(0);
      for (const caller of callers) caller.isOver = true;
      await until('every message is answered', () => callers.every(({ lost }) => lost === 0));
      await opener.close();
      staying?.child.kill('SIGKILL');
    },
  );

  it('sends GOAWAY to gRPC clients and lets their calls finish', async () => {
    const { child, grpcPort, exited } = await start({ delayMs: 0, idleMs: 0 });
    const client = new Client(`127.0.0.1:${grpcPort}`, credentials.createInsecure());
    const same = (bytes: Buffer): Buffer => bytes;
    const call = (tenths: number): Promise<ServiceError | null> =>
      new Promise((resolve) => {
        client.makeUnaryRequest('/shop.v1.Orders/Get', same, same, Buffer.from([tenths]), (error) => resolve(error));
      });
    const running = Array.from({ length: 20 }, () => call(20));
    // Calls on one connection arrive in order.
    expect(await call(0)).toBeNull();
    child.kill('SIGTERM');
    expect(await Promise.all(running)).toEqual(running.map(() => null));
    expect(await exited).toBe(0);
    client.close();
  });

  it('sends GOAWAY over HTTP/2 and lets streams finish', async () => {
    const { child, port, exited } = await start({ delayMs: 0, idleMs: 0 }, 'http2');
    const session = connectHttp2(`http://127.0.0.1:${port}`);
    const away = once(session, 'goaway');
    const stream = session.request({ ':path': '/?ms=1000&flush' });
    const [headers] = await once(stream, 'response');
    expect(headers[':status']).toBe(200);
    child.kill('SIGTERM');
    const [code] = await away;
    expect(code).toBe(0);
    let body = '';
    for await (const piece of stream) body += piece;
    expect(body).toBe('ok');
    expect(await exited).toBe(0);
    session.destroy();
  });
});
