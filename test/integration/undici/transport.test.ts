import { createServer, type Server, type Socket } from 'node:net';
import { type Connection, createEndpoint } from 'evenkeel';
import { FakeClock } from 'evenkeel/testing';
import { type UndiciTransportOptions, undiciTransport } from 'evenkeel/undici';
import type { Pool } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { HangingEndpoint, refusingEndpoint } from '../../support/pods/hanging-endpoint.js';
import { Pod } from '../../support/pods/pods.js';
import { toldCapacity } from '../../support/pods/told-capacity.js';
import { until } from '../../support/until.js';

const origin = 'http://orders.shop:8080';
const never = new AbortController().signal;

let clock: FakeClock;
let pod: Pod;
let connections: Connection<Pool>[];

beforeEach(async () => {
  clock = new FakeClock();
  pod = await Pod.start({ backlog: 1 });
  connections = [];
});
afterEach(async () => {
  await Promise.all(connections.map((connection) => connection.close(AbortSignal.abort())));
  await pod[Symbol.asyncDispose]();
});

const connect = async (
  options: Partial<UndiciTransportOptions> = {},
  endpoint: { readonly address: string; readonly port: number } = pod.endpoint,
): Promise<Connection<Pool>> => {
  const transport = undiciTransport({ origin, clock, rng: { next: () => 0 }, ...options });
  const connection = await transport.connect(createEndpoint(endpoint), never);
  connections.push(connection);
  return connection;
};
const get = async ({ handle }: Connection<Pool>, path = '/'): Promise<number> => {
  const { statusCode, body } = await handle.request({ path, method: 'GET' });
  await body.dump();
  return statusCode;
};
/** What a promise has settled with; `pending` while it has not. */
const watch = <T>(promise: Promise<T>): { value: T | 'pending' } => {
  const seen: { value: T | 'pending' } = { value: 'pending' };
  void promise.then((value) => {
    seen.value = value;
  });
  return seen;
};
const opened = async (): Promise<number> => (await pod.stats()).connections;
const open = async (): Promise<number> => (await pod.stats()).open;

describe('the first socket', () => {
  it('is opened before the first request, which then uses it', async () => {
    const connection = await connect();
    await until('the pod sees it', async () => (await opened()) === 1);
    expect(connection.capacity).toBe(Number.POSITIVE_INFINITY);
    expect(await get(connection)).toBe(200);
    // undici takes a socket for free only a turn after its answer; a request in that turn opens another.
    await new Promise((resolve) => setImmediate(resolve));
    expect(await get(connection)).toBe(200);
    expect(await opened()).toBe(1);
  });

  it('is closed with the connection if no request ever came', async () => {
    const connection = await connect();
    const closed = watch(connection.closed);
    await connection.close();
    expect(closed.value).toBeUndefined();
    await until('the pod has none', async () => (await open()) === 0);
  });

  it('is not used if the server sent something before a request', async () => {
    // A server that loses its patience: a 408 on a connection that never carried a request.
    let accepted = 0;
    const sockets: Socket[] = [];
    const server: Server = createServer((socket) => {
      accepted++;
      sockets.push(socket.on('error', () => {}));
      if (accepted === 1) socket.end('HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\r\n');
      else socket.end('HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    try {
      const { port } = server.address() as { port: number };
      const connection = await connect({}, { address: '127.0.0.1', port });
      await until('it is gone', () => sockets[0]?.destroyed === true);
      expect(await get(connection)).toBe(204);
      expect(accepted).toBe(2);
    } finally {
      server.close();
    }
  });

  it('fails the connection where nobody listens', async () => {
    await expect(connect({}, await refusingEndpoint())).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });

  it('fails the connection with undici’s code when it takes too long, and leaves nothing open when it is aborted', async () => {
    await using hanging = await HangingEndpoint.start();
    const transport = undiciTransport({ origin, clock, connectTimeoutMs: 2_000 });
    const before = tcpHandles();
    const slow = transport.connect(createEndpoint(hanging.endpoint), never);
    slow.catch(() => {});
    clock.advance(2_000);
    await expect(slow).rejects.toMatchObject({ code: 'UND_ERR_CONNECT_TIMEOUT' });

    const caller = new AbortController();
    const calledOff = transport.connect(createEndpoint(hanging.endpoint), caller.signal);
    caller.abort(new Error('not wanted any more'));
    await expect(calledOff).rejects.toThrow('not wanted any more');
    await expect(transport.connect(createEndpoint(hanging.endpoint), caller.signal)).rejects.toThrow('not wanted');
    await until('the socket is closed', () => clock.timers === 0);
    expect(tcpHandles()).toBe(before);
  });
});

const tcpHandles = (): number => process.getActiveResourcesInfo().filter((kind) => kind.startsWith('TCP')).length;

describe('a socket that the pod closes while it is idle', () => {
  it('leaves the connection ready; another is opened at the next request', async () => {
    const connection = await connect();
    const closed = watch(connection.closed);
    await get(connection);
    await pod.end();
    await until('it is closed', async () => (await open()) === 0);
    expect(await get(connection)).toBe(200);
    expect(await opened()).toBe(2);
    expect(closed.value).toBe('pending');
  });

  it('is replaced before the next request, at most once per 30 s', async () => {
    const connection = await connect();
    await get(connection);
    await pod.end();
    await until('it is closed', () => clock.timers === 1);
    clock.advance(29_999);
    expect(await opened()).toBe(1);
    clock.advance(1);
    await until('it is opened again', async () => (await opened()) === 2);
    expect(await get(connection)).toBe(200);
    expect(await opened()).toBe(2);

    // Later than 30 s after the last time: at once.
    clock.advance(60_000);
    await pod.end();
    await until('it is closed', () => clock.timers === 1);
    clock.advance(0);
    await until('it is opened again', async () => (await opened()) === 3);
  });

  it('closes the connection with the error if the pod is gone by then', async () => {
    const connection = await connect();
    const closed = watch(connection.closed);
    await get(connection);
    await pod.kill();
    await until('the end was noticed', () => clock.timers === 1);
    expect(closed.value).toBe('pending');
    clock.advance(30_000);
    await until('it is closed', () => closed.value !== 'pending');
    expect(closed.value).toMatchObject({ code: 'ECONNREFUSED' });
  });
});

describe('a socket that is reset', () => {
  it('is replaced at once if it had worked', async () => {
    const connection = await connect();
    const told = toldCapacity(connection);
    const closed = watch(connection.closed);
    await get(connection);
    await pod.reset();
    await until('it is opened again', async () => (await opened()) === 2);
    await until('it may be used in full', () => connection.capacity === Number.POSITIVE_INFINITY);
    expect(told).toEqual([1, Number.POSITIVE_INFINITY]);
    expect(await get(connection)).toBe(200);
    expect(await opened()).toBe(2);
    expect(closed.value).toBe('pending');
  });

  it('closes the connection if it never carried a byte: no loop of connections', async () => {
    const connection = await connect();
    const closed = watch(connection.closed);
    await until('the pod sees it', async () => (await opened()) === 1);
    await pod.reset();
    await until('it is closed', () => closed.value !== 'pending');
    expect(closed.value).toMatchObject({ code: 'ECONNRESET' });
    expect(await opened()).toBe(1);
  });

  it('closes the connection if the pod is gone', async () => {
    const connection = await connect();
    const closed = watch(connection.closed);
    await get(connection);
    const hanging = get(connection, '/hang');
    hanging.catch(() => {});
    await until('the pod has it', async () => (await pod.stats()).requests === 2);
    await pod.kill();
    await expect(hanging).rejects.toThrow();
    // Only who uses the pool knows that a request died; the dispatcher says so, `run` need not.
    await get(connection).catch(() => {});
    await until('it is closed', () => closed.value !== 'pending');
    expect(closed.value).toMatchObject({ code: 'ECONNREFUSED' });
  });
});

describe('a pod that accepts no further connection', () => {
  it('and has closed its listener is leaving; its running requests finish', async () => {
    const connection = await connect();
    const [closed, leaving] = [watch(connection.closed), watch(connection.leaving as Promise<void>)];
    await pod.behave({ delayMs: 1_000 });
    const slow = get(connection);
    await until('the pod has it', async () => (await pod.stats()).requests === 1);
    await pod.stopListening();
    await expect(get(connection)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await until('it is leaving', () => leaving.value !== 'pending');
    expect(closed.value).toBe('pending');
    expect(await slow).toBe(200);
    await connection.close();
    expect(closed.value).toBeUndefined();
  });

  it('but works on its open ones is only full: it keeps them, and gets no more calls than they carry', async () => {
    const connection = await connect({ connectTimeoutMs: 1_000 });
    const told = toldCapacity(connection);
    const [closed, leaving] = [watch(connection.closed), watch(connection.leaving as Promise<void>)];
    const { body } = await connection.handle.request({ path: '/bytes/50000000', method: 'GET' });
    await using _hanging = await HangingEndpoint.seize(pod);
    const second = get(connection);
    second.catch(() => {});
    await until('it is connecting', () => clock.timers === 1);
    // Bytes the kernel holds already: to us the pod is alive. More of them than the response and undici's parser may have held
    // before we began to connect.
    let received = 0;
    body.on('data', (chunk: Buffer) => {
      received += chunk.length;
    });
    body.on('error', () => {});
    await until('it goes on', () => received > 400_000);
    clock.advance(1_000);
    await expect(second).rejects.toMatchObject({ code: 'UND_ERR_CONNECT_TIMEOUT' });
    expect([connection.capacity, told.at(-1)]).toEqual([1, 1]);
    expect([closed.value, leaving.value]).toEqual(['pending', 'pending']);
    clock.advance(5_000);
    expect([connection.capacity, told.at(-1)]).toEqual([Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]);
  });

  it('and is silent on its open ones is leaving', async () => {
    const connection = await connect({ connectTimeoutMs: 1_000 });
    const leaving = watch(connection.leaving as Promise<void>);
    const first = get(connection, '/hang');
    first.catch(() => {});
    await until('the pod has it', async () => (await pod.stats()).requests === 1);
    await using _hanging = await HangingEndpoint.seize(pod);
    const second = get(connection);
    second.catch(() => {});
    await until('it is connecting', () => clock.timers === 1);
    clock.advance(1_000);
    await expect(second).rejects.toMatchObject({ code: 'UND_ERR_CONNECT_TIMEOUT' });
    await until('it is leaving', () => leaving.value !== 'pending');
  });
});

describe('close', () => {
  it('waits for running requests, and cuts them when its signal aborts', async () => {
    const connection = await connect();
    const closed = watch(connection.closed);
    const hanging = get(connection, '/hang');
    hanging.catch(() => {});
    await until('the pod has it', async () => (await pod.stats()).requests === 1);
    const limit = new AbortController();
    const done = connection.close(limit.signal);
    const again = connection.close();
    await new Promise((resolve) => setImmediate(resolve));
    expect(closed.value).toBe('pending');
    limit.abort();
    await done;
    await again;
    await expect(hanging).rejects.toMatchObject({ code: 'UND_ERR_DESTROYED' });
    expect(closed.value).toBeUndefined();
    await until('the pod has none', async () => (await open()) === 0);
  });

  it('waits for upgraded connections too, and cuts those as well', async () => {
    const connection = await connect();
    const { socket } = await connection.handle.upgrade({ path: '/', protocol: 'echo' });
    socket.on('error', () => {});
    const limit = new AbortController();
    const done = watch(connection.close(limit.signal).then(() => 'closed'));
    await new Promise((resolve) => setImmediate(resolve));
    expect(done.value).toBe('pending');
    limit.abort();
    await until('it is closed', () => done.value === 'closed');
    await until('the pod has none', async () => (await open()) === 0);
  });

  it('while a socket is connecting leaves nothing open and no timer', async () => {
    const connection = await connect();
    const first = get(connection, '/hang').catch(() => {});
    await until('the pod has it', async () => (await pod.stats()).requests === 1);
    await using _hanging = await HangingEndpoint.seize(pod);
    const before = tcpHandles();
    const second = get(connection).catch(() => {});
    await until('it is connecting', () => clock.timers === 1);
    await connection.close(AbortSignal.abort());
    await Promise.all([first, second]);
    expect(clock.timers).toBe(0);
    await until('nothing is open', () => tcpHandles() < before);
  });

  it('refuses later requests as never sent', async () => {
    const connection = await connect();
    await connection.close();
    await expect(get(connection)).rejects.toMatchObject({ code: expect.stringMatching(/UND_ERR_(CLOSED|DESTROYED)/) });
  });
});

describe('ping', () => {
  it('with a path passes with a status below 400', async () => {
    const healthy = await connect({ healthPath: '/status/204' });
    await healthy.ping?.(never);
    const ill = await connect({ healthPath: '/status/503' });
    await expect(ill.ping?.(never)).rejects.toThrow('/status/503 answered 503');
    const hanging = await connect({ healthPath: '/hang' });
    await expect(hanging.ping?.(AbortSignal.timeout(100))).rejects.toMatchObject({ name: 'TimeoutError' });
  });

  it('without a path passes if the pod accepts', async () => {
    const connection = await connect();
    await connection.ping?.(never);
    await get(connection);
    await connection.ping?.(never);
    await pod.stopListening();
    await expect(connection.ping?.(never)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await expect(connection.ping?.(AbortSignal.abort())).rejects.toMatchObject({ name: 'AbortError' });
  });
});
