import { type Agent, get } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { type Connection, createEndpoint } from 'evenkeel';
import { type NodeHttpTransportOptions, nodeHttpTransport } from 'evenkeel/node-http';
import { FakeClock } from 'evenkeel/testing';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { transportContract } from '../../contract/transport.js';
import { HangingEndpoint, refusingEndpoint } from '../../support/pods/hanging-endpoint.js';
import { Pod } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { send } from './support/request.js';

const origin = 'http://orders.shop:8080';
const never = new AbortController().signal;

/** Making one takes a while: all tests of the contract share it. */
let hanging: Promise<HangingEndpoint> | undefined;
afterAll(async () => (await hanging)?.[Symbol.asyncDispose]());

transportContract<Agent>({
  name: 'nodeHttpTransport',
  outlivesCleanEnd: true,
  open: async () => {
    // Answers a request when it is told to, so that calls last as long as a test wants them to.
    const sockets = new Set<Socket>();
    const asked: Socket[] = [];
    const server = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => {}).on('close', () => sockets.delete(socket));
      socket.on('data', () => asked.push(socket));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    hanging ??= HangingEndpoint.start();
    const hangingEndpoint = (await hanging).endpoint;
    return {
      transport: nodeHttpTransport({ origin }),
      endpoint: createEndpoint({ address: '127.0.0.1', port }),
      refusing: createEndpoint(await refusingEndpoint()),
      hanging: createEndpoint(hangingEndpoint),
      open: () => sockets.size,
      end: (how) => {
        for (const socket of sockets) how === 'badly' ? socket.resetAndDestroy() : socket.end();
      },
      call: async (agent) => {
        const before = asked.length;
        const ended = send(agent, `${origin}/`).then(
          () => 'finished' as const,
          () => 'cut' as const,
        );
        await until('the request has arrived', () => asked.length > before);
        const socket = asked.at(-1) as Socket;
        return { ended, finish: () => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok') };
      },
      close: async () => {
        for (const socket of sockets) socket.destroy();
        await new Promise((resolve) => server.close(resolve));
      },
    };
  },
});

describe('the connection to one pod', () => {
  let clock: FakeClock;
  let pod: Pod;
  let connections: Connection<Agent>[];

  beforeEach(async () => {
    clock = new FakeClock();
    pod = await Pod.start();
    connections = [];
  });
  afterEach(async () => {
    await Promise.all(connections.map((connection) => connection.close(AbortSignal.abort())));
    await pod[Symbol.asyncDispose]();
  });

  const connect = async (
    options: Partial<NodeHttpTransportOptions> = {},
    endpoint: { readonly address: string; readonly port: number } = pod.endpoint,
  ): Promise<Connection<Agent>> => {
    const transport = nodeHttpTransport({ origin, clock, rng: { next: () => 0 }, ...options });
    const connection = await transport.connect(createEndpoint(endpoint), never);
    connections.push(connection);
    return connection;
  };
  const opened = async (): Promise<number> => (await pod.stats()).connections;
  const open = async (): Promise<number> => (await pod.stats()).open;
  const isFree = ({ handle }: Connection<Agent>): boolean => Object.values(handle.freeSockets).flat().length > 0;

  /** A request that may first see whether the pod keeps its connections: that takes 25 ms at most. */
  const sendNext = async (...request: Parameters<typeof send>): ReturnType<typeof send> => {
    const answer = send(...request);
    for (let step = 0; step < 10; step++) {
      await new Promise((resolve) => setImmediate(resolve));
      await clock.advanceAsync(5);
    }
    return answer;
  };

  it('is opened before the first request, which uses it, as do later ones', async () => {
    const connection = await connect();
    await until('the pod sees it', async () => (await opened()) === 1);
    expect(connection.capacity).toBe(Number.POSITIVE_INFINITY);
    expect(await send(connection.handle, `${origin}/`)).toMatchObject({ status: 200, reused: false });
    expect(await sendNext(connection.handle, `${origin}/`)).toMatchObject({ status: 200, reused: true });
    expect(await opened()).toBe(1);
  });

  it('goes to the pod whatever host a request names', async () => {
    const connection = await connect();
    const { body } = await send(connection.handle, 'http://somebody.else:99/');
    expect(JSON.parse(body)).toMatchObject({ pod: 'pod', host: 'somebody.else:99' });
  });

  it('opens more sockets as needed, and uses the newest first', async () => {
    const connection = await connect();
    const bodies = await Promise.all([1, 2, 3].map(() => send(connection.handle, `${origin}/bytes/10`)));
    expect(bodies.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(await opened()).toBe(3);
    await sendNext(connection.handle, `${origin}/`);
    expect(await opened()).toBe(3);
  });

  it('keeps no more sockets than `connections`', async () => {
    const connection = await connect({ connections: 2 });
    await Promise.all([1, 2, 3, 4].map(() => send(connection.handle, `${origin}/`)));
    await until('no more are left', async () => (await open()) <= 2);
  });

  it('closes an idle socket after keepAliveTimeoutMs', async () => {
    const connection = await connect({ keepAliveTimeoutMs: 50 });
    await send(connection.handle, `${origin}/`);
    expect(isFree(connection)).toBe(true);
    clock.advance(50);
    await until('the pod sees it end', async () => (await open()) === 0);
  });

  it('does not use a socket that was idle too long while the event loop was blocked', async () => {
    const connection = await connect({ keepAliveTimeoutMs: 60_000 });
    await send(connection.handle, `${origin}/`);
    clock.advance(61_000);
    expect(await send(connection.handle, `${origin}/`)).toMatchObject({ status: 200, reused: false });
  });

  it('closes a socket before the time that a Keep-Alive hint of the pod gives', async () => {
    await pod.behave({ headers: { 'keep-alive': 'timeout=5' } });
    const connection = await connect();
    await send(connection.handle, `${origin}/`);
    clock.advance(2_900);
    expect(await send(connection.handle, `${origin}/`)).toMatchObject({ reused: true });
    clock.advance(3_100);
    expect(await send(connection.handle, `${origin}/`)).toMatchObject({ reused: false });
  });

  it('uses a socket once where the hint leaves no time, and where the pod says Connection: close', async () => {
    await pod.behave({ headers: { 'keep-alive': 'timeout=1' } });
    const connection = await connect();
    for (let request = 1; request <= 2; request++) {
      expect(await send(connection.handle, `${origin}/`)).toMatchObject({ status: 200, reused: false });
    }
    await pod.behave({ connection: 'close', headers: {} });
    expect(await send(connection.handle, `${origin}/`)).toMatchObject({ status: 200, reused: false });
    await until('nothing is open', async () => (await open()) === 0);
    expect(connection.capacity).toBe(Number.POSITIVE_INFINITY);
  });

  it('destroys a socket on which the pod sends something unasked', async () => {
    const sockets: Socket[] = [];
    const server = createServer((socket) => {
      sockets.push(socket);
      socket.on('error', () => {}).on('data', () => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const connection = await connect({}, { address: '127.0.0.1', port });
    await send(connection.handle, `${origin}/`);
    expect(isFree(connection)).toBe(true);
    sockets[0]?.write('HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\r\n');
    await until('the socket is gone', () => !isFree(connection));
    expect(await send(connection.handle, `${origin}/`)).toMatchObject({ status: 200, reused: false });
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });

  it('ignores the timeout of an earlier request', async () => {
    const connection = await connect({ keepAliveTimeoutMs: 100 });
    // Each answer takes longer than a socket may be idle; between the two it is not, however busy the machine.
    await pod.behave({ delayMs: 400 });
    await send(connection.handle, `${origin}/`);
    // What follow-redirects, below axios, leaves on the socket of a request that had a timeout.
    for (const socket of Object.values(connection.handle.freeSockets).flat()) {
      socket?.on('timeout', () => socket.destroy());
    }
    expect(await sendNext(connection.handle, `${origin}/`)).toMatchObject({ status: 200, reused: true });
  });

  it('does not inherit the timeout of an earlier request', async () => {
    const connection = await connect();
    get(`${origin}/`, { agent: connection.handle }, (response) => {
      response.setTimeout(100);
      response.resume();
    });
    await until('its socket is free', () => isFree(connection));
    const [socket] = Object.values(connection.handle.freeSockets).flat();
    expect(socket?.timeout).toBe(0);
  });

  it('after a clean end is opened again at the next request', async () => {
    const connection = await connect();
    await send(connection.handle, `${origin}/`);
    await pod.end();
    await until('nothing is open', async () => (await open()) === 0);
    await until('it is known here', () => !isFree(connection));
    expect(await send(connection.handle, `${origin}/`)).toMatchObject({ status: 200, reused: false });
  });

  it('is leaving when the pod accepts no further connection; running requests finish', async () => {
    const connection = await connect();
    let isLeaving = false;
    void connection.leaving?.then(() => {
      isLeaving = true;
    });
    const running = send(connection.handle, `${origin}/hang`);
    await until('the pod has it', async () => (await pod.stats()).requests === 1);
    await pod.stopListening();
    await expect(send(connection.handle, `${origin}/`)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await until('it is leaving', () => isLeaving);
    const failing = expect(running).rejects.toMatchObject({ code: 'ECONNRESET' });
    await connection.close(AbortSignal.abort());
    await failing;
  });

  it('is closed with the error when the pod is gone', async () => {
    const connection = await connect();
    await send(connection.handle, `${origin}/`);
    await pod.kill();
    await until('it is known here', () => !isFree(connection));
    await expect(send(connection.handle, `${origin}/`)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    expect(await connection.closed).toMatchObject({ code: 'ECONNREFUSED' });
  });

  it('refuses requests after close', async () => {
    const connection = await connect();
    await connection.close();
    await expect(send(connection.handle, `${origin}/`)).rejects.toThrow('is being given up');
  });

  it('waits for an upgraded connection when it is closed, and cuts it if it must', async () => {
    const connection = await connect();
    const upgraded = new Promise<Socket>((resolve) => {
      const request = get(`${origin}/`, {
        agent: connection.handle,
        headers: { connection: 'upgrade', upgrade: 'echo' },
      });
      request.on('upgrade', (_response, socket) => resolve(socket as Socket)).on('error', () => {});
    });
    const socket = await upgraded;
    const limit = new AbortController();
    let isClosed = false;
    const closing = connection.close(limit.signal).then(() => {
      isClosed = true;
    });
    const echoed = new Promise((resolve) => socket.once('data', (chunk) => resolve(String(chunk))));
    socket.write('still here');
    expect(await echoed).toBe('still here');
    expect(isClosed).toBe(false);
    limit.abort();
    await closing;
    expect(socket.destroyed).toBe(true);
  });

  it('pings with a path, and passes with a status below 400', async () => {
    const healthy = await connect({ healthPath: '/status/204' });
    await healthy.ping?.(never);
    const ill = await connect({ healthPath: '/status/503' });
    await expect(ill.ping?.(never)).rejects.toThrow('/status/503 answered 503');
    const hanging = await connect({ healthPath: '/hang' });
    await expect(hanging.ping?.(AbortSignal.timeout(100))).rejects.toMatchObject({ name: 'TimeoutError' });
    expect((await pod.stats()).hosts).toEqual({ 'orders.shop:8080': 3 });
  });

  it('pings without a path, and passes if the pod accepts', async () => {
    const connection = await connect();
    await connection.ping?.(never);
    await pod.stopListening();
    await expect(connection.ping?.(never)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await expect(connection.ping?.(AbortSignal.abort())).rejects.toMatchObject({ name: 'AbortError' });
  });
});
