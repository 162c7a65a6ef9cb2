import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { type AddressInfo, createServer, Socket as NetSocket, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { type ObserverEvents, type Resolver, staticEndpoints } from 'evenkeel';
import { type ConnectionLeaving, type Connector, type ConnectorOptions, createConnector } from 'evenkeel/tcp';
import { FakeResolver } from 'evenkeel/testing';
import { describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { closedAfterEach } from '../../support/opened.js';
import { HangingEndpoint, refusingEndpoint } from '../../support/pods/hanging-endpoint.js';
import { Pod } from '../../support/pods/pods.js';
import { SocketPod } from '../../support/pods/socket-pods.js';
import { until } from '../../support/until.js';

const open = closedAfterEach();

async function startPods(count: number, options?: Parameters<typeof SocketPod.start>[0]): Promise<SocketPod[]> {
  const pods = await SocketPod.startAll(count, options);
  open.push(...pods);
  return pods;
}

function connector(options: ConnectorOptions): Connector {
  const made = createConnector('broker.shop:5672', options);
  open.push({ [Symbol.asyncDispose]: () => made.close({ signal: AbortSignal.abort() }) });
  return made;
}

/** The first line a pod sends: its name. */
async function greeting(socket: Socket): Promise<string> {
  const [data] = await once(socket, 'data');
  return String(data).split('\n')[0] as string;
}

const inFlight = (made: Connector): number[] => made.balancer.snapshot().endpoints.map((endpoint) => endpoint.inFlight);

describe('connecting', () => {
  it('puts connections where this process has the fewest, and opens no others', async () => {
    const pods = await startPods(5);
    const made = connector({ resolver: staticEndpoints(pods.map(({ endpoint }) => endpoint)) });
    await made.balancer.ready();
    const sockets = await Promise.all(Array.from({ length: 20 }, () => made.connect()));
    await until('all are accepted', () => pods.every(({ stats }) => stats.accepted === 4));
    expect(pods.map(({ stats }) => stats.open)).toEqual([4, 4, 4, 4, 4]);
    expect(inFlight(made)).toEqual([4, 4, 4, 4, 4]);
    for (const socket of sockets) socket.destroy();
    await until('they are given back', () => inFlight(made).every((count) => count === 0));
    expect(pods.reduce((sum, { stats }) => sum + stats.accepted, 0)).toBe(20);
  });

  it('fills a new pod until it has as many as the others', async () => {
    const [pod, fresh] = (await startPods(2)) as [SocketPod, SocketPod];
    const resolver = new FakeResolver();
    const made = connector({ resolver });
    resolver.update(pod.endpoint);
    await Promise.all(Array.from({ length: 8 }, () => made.connect()));
    resolver.update(pod.endpoint, fresh.endpoint);
    await until('both are known', () => inFlight(made).length === 2);
    const ports = (await Promise.all(Array.from({ length: 8 }, () => made.connect()))).map(
      ({ remotePort }) => remotePort,
    );
    expect(ports).toEqual(Array(8).fill(fresh.endpoint.port));
    expect(inFlight(made)).toEqual([8, 8]);
  });

  it('uses another pod when one refuses, and the first again when it accepts', async () => {
    const [pod] = (await startPods(1)) as [SocketPod];
    const refusing = await refusingEndpoint();
    const made = connector({ resolver: staticEndpoints([refusing, pod.endpoint]) });
    const sockets = await Promise.all(Array.from({ length: 30 }, () => made.connect()));
    for (const socket of sockets) expect(socket.remotePort).toBe(pod.endpoint.port);
    const states = () => made.balancer.snapshot().endpoints.map(({ state }) => state);
    expect(states()).not.toContain('idle');
    expect(states().filter((state) => state === 'ready')).toHaveLength(1);
    const back = await SocketPod.start({ name: 'back', port: refusing.port });
    open.push(back);
    await until('it is ready', () => states()[0] === 'ready');
    expect(await greeting(await made.connect())).toBe('back');
    for (const socket of sockets) socket.destroy();
  });

  it('uses the second address of a pod when the first refuses, and starts with it from then on', async () => {
    const [pod] = (await startPods(1)) as [SocketPod];
    const { address, port } = pod.endpoint;
    const states: string[] = [];
    const observer = { subchannelChanged: ({ to }: { to: string }): void => void states.push(to) };
    const resolver = staticEndpoints([{ address: '127.0.0.99', otherAddress: address, port }]);
    const made = connector({ resolver, observer });
    await made.connect();
    expect(made.balancer.snapshot().endpoints).toMatchObject([
      { address: `${address}:${port}`, otherAddress: `127.0.0.99:${port}`, inFlight: 1, failed: 0 },
    ]);
    await made.connect();
    expect(pod.stats.accepted).toBeLessThanOrEqual(2);
    expect(inFlight(made)).toEqual([2]);
    expect(states).toEqual(['connecting', 'ready']);
  });

  it('fails when neither address of the only pod accepts, with an error that names both', async () => {
    const { address, port } = await refusingEndpoint();
    const resolver = staticEndpoints([{ address: '127.0.0.99', otherAddress: address, port }]);
    const made = connector({ resolver, waitTimeoutMs: 100 });
    const error = await made.connect().catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'EVENKEEL_NOT_READY' });
    expect(String(error)).toMatch(new RegExp(`127\\.0\\.0\\.99:${port}.*; .*${address}:${port}`));
  });

  it('uses another pod when one neither accepts nor refuses', async () => {
    const [pod] = (await startPods(1)) as [SocketPod];
    const hanging = await HangingEndpoint.start();
    open.push(hanging);
    const made = connector({
      resolver: staticEndpoints([hanging.endpoint, pod.endpoint]),
      pool: { connectTimeoutMs: 200 },
      waitTimeoutMs: 30_000,
    });
    const sockets = await Promise.all([made.connect(), made.connect(), made.connect()]);
    for (const socket of sockets) expect(socket.remotePort).toBe(pod.endpoint.port);
  });

  it('waits for a pod that can be connected to, and fails when there is none in time', async () => {
    const refusing = await refusingEndpoint();
    const made = connector({ resolver: staticEndpoints([refusing]), waitTimeoutMs: 300 });
    await expect(made.connect()).rejects.toMatchObject({
      code: 'EVENKEEL_NOT_READY',
      message: expect.stringContaining('ECONNREFUSED'),
    });
    const patient = connector({ resolver: staticEndpoints([refusing]), waitTimeoutMs: 60_000 });
    const connecting = patient.connect();
    await until('it waits', () => patient.balancer.snapshot().waiting === 1);
    open.push(await SocketPod.start({ name: 'late', port: refusing.port }));
    expect(await greeting(await connecting)).toBe('late');
  });

  it('ends with the signal, whether it waits or dials', async () => {
    const hanging = await HangingEndpoint.start();
    open.push(hanging);
    const made = connector({ resolver: staticEndpoints([hanging.endpoint]), pool: { connectTimeoutMs: 60_000 } });
    const limit = new AbortController();
    const reason = new Error('changed my mind');
    const connecting = made.connect({ signal: limit.signal });
    await until('it dials', () => inFlight(made)[0] === 1);
    limit.abort(reason);
    await expect(connecting).rejects.toBe(reason);
    await expect(made.connect({ signal: limit.signal })).rejects.toBe(reason);
    expect(inFlight(made)).toEqual([0]);
    // It was the caller who gave up.
    expect(made.balancer.snapshot().endpoints[0]?.state).toBe('ready');
    const waiting = connector({ resolver: new FakeResolver() });
    const other = new AbortController();
    const acquired = waiting.connect({ signal: other.signal });
    other.abort(reason);
    await expect(acquired).rejects.toBe(reason);
  });

  it('uses another pod when the pod leaves while it is dialed', async () => {
    const [pod] = (await startPods(1)) as [SocketPod];
    const hanging = await HangingEndpoint.start();
    open.push(hanging);
    const resolver = new FakeResolver();
    const made = connector({ resolver, pool: { connectTimeoutMs: 60_000 } });
    resolver.update(hanging.endpoint);
    const connecting = made.connect();
    await until('it dials', () => inFlight(made)[0] === 1);
    resolver.update(pod.endpoint);
    expect((await connecting).remotePort).toBe(pod.endpoint.port);
  });

  it('reports each connection once, with how it ended', async () => {
    const [pod] = (await startPods(1)) as [SocketPod];
    const ends: ObserverEvents['attemptEnded'][] = [];
    const made = connector({
      resolver: staticEndpoints([pod.endpoint]),
      observer: { attemptEnded: (event) => void ends.push(event) },
    });
    const ended = async (act: (socket: Socket) => unknown) => {
      const socket = (await made.connect()).on('error', () => {});
      await greeting(socket);
      await act(socket);
      await until('it was told', () => ends.length > 0);
      const [{ outcome, attempt, retrying } = {}] = ends.splice(0);
      return { outcome, attempt, retrying };
    };
    const once1 = { attempt: 1, retrying: false };
    expect(await ended((socket) => socket.end())).toEqual({ outcome: { kind: 'success' }, ...once1 });
    expect(await ended(() => pod.command('end'))).toEqual({ outcome: { kind: 'success' }, ...once1 });
    const reset = { outcome: { kind: 'failure', cause: 'reset' }, ...once1 };
    expect(await ended(() => pod.command('reset'))).toEqual(reset);
    const own = (socket: Socket) => socket.destroy(new Error('the application has had enough'));
    expect(await ended(own)).toEqual({ outcome: { kind: 'cancelled' }, ...once1 });
  });

  it('refuses options it does not know', async () => {
    const resolver = staticEndpoints([{ address: '127.0.0.1', port: 9 }]);
    for (const options of [
      { leaveSpread: 1 },
      { pool: { maxConnectionAgeMs: 60_000 } },
      { tls: true },
      { finish: 'QUIT' },
      { rebalance: 1 },
    ]) {
      expect(() => createConnector('broker.shop:5672', { resolver, ...(options as object) })).toThrow(
        expect.objectContaining({ code: 'EVENKEEL_OPTION' }),
      );
    }
    const made = connector({ resolver });
    for (const options of [{ timeout: 1 }, { onLeaving: 1 }, { finish: 'end' }]) {
      await expect(made.connect(options as never)).rejects.toMatchObject({ code: 'EVENKEEL_OPTION' });
    }
    await expect(made.close({ now: true } as never)).rejects.toMatchObject({ code: 'EVENKEEL_OPTION' });
  });
});

describe('TLS', () => {
  const authority = createCertificate({ commonName: 'authority' });

  async function world(host: string) {
    const { cert, key } = createCertificate({ hosts: [host], issuer: authority });
    const [pod] = (await startPods(1, { tls: { cert, key } })) as [SocketPod];
    return { resolver: staticEndpoints([pod.endpoint]), tls: { ca: authority.cert } };
  }

  it('verifies the certificate for the name of the Service', async () => {
    const made = connector(await world('broker.shop'));
    const socket = await made.connect();
    expect(socket).toBeInstanceOf(TLSSocket);
    expect((socket as TLSSocket).authorized).toBe(true);
    expect((socket as TLSSocket & { servername: string }).servername).toBe('broker.shop');
    expect(await greeting(socket)).toBe('a');
  });

  it('keeps the settings as they were given, even if the object is changed later', async () => {
    const given = await world('broker.shop');
    const made = connector(given);
    given.tls.ca = 'no certificate';
    expect(await greeting(await made.connect())).toBe('a');
  });

  it('refuses a certificate for another Service, and says so at once', async () => {
    const made = connector({ ...(await world('stock.shop')), waitTimeoutMs: 60_000 });
    await expect(made.connect()).rejects.toMatchObject({ code: 'EVENKEEL_CONNECT' });
  });
});

describe('createConnection', () => {
  it('return a stream at once, which connects by itself', async () => {
    const [pod] = (await startPods(1)) as [SocketPod];
    const refusing = await refusingEndpoint();
    const made = connector({ resolver: staticEndpoints([refusing, pod.endpoint]) });
    // One of them meets the pod that refuses.
    for (let round = 0; round < 2; round++) {
      const { createConnection } = made;
      const stream = createConnection();
      let text = '';
      stream.setEncoding('utf8');
      stream.on('data', (data) => {
        text += data;
      });
      stream.write('early');
      await once(stream, 'connect');
      stream.write('late');
      await until('it came back', () => text === 'a\nearlylate');
      stream.end();
      await once(stream, 'close');
    }
    await until('they are given back', () => inFlight(made).every((count) => count === 0));
  });

  it('return a stream with the properties and methods of a socket', async () => {
    const [pod] = (await startPods(1)) as [SocketPod];
    const made = connector({ resolver: staticEndpoints([pod.endpoint]) });
    const stream = made.createConnection();
    const named = Object.getOwnPropertyNames(NetSocket.prototype).filter((name) => !name.startsWith('_'));
    expect(named.filter((name) => !(name in stream))).toEqual([]);
    const shown = () => {
      const { pending, connecting, readyState, bytesRead, bytesWritten, bufferSize, timeout } = stream;
      return { pending, connecting, readyState, bytesRead, bytesWritten, bufferSize, timeout };
    };
    const none = { bytesRead: 0, timeout: undefined };
    const opening = { ...none, pending: true, connecting: true, readyState: 'opening' };
    expect(shown()).toEqual({ ...opening, bytesWritten: 0, bufferSize: 0 });
    expect([stream.localPort, stream.remoteFamily, stream.address()]).toEqual([undefined, undefined, {}]);
    // Node 24 and 26 have these methods, the types of Node 20 do not.
    const typed = stream as unknown as { setTypeOfService(tos: number): typeof typed; getTypeOfService(): number };
    expect(() => typed.setTypeOfService(256)).toThrow(expect.objectContaining({ code: 'ERR_OUT_OF_RANGE' }));
    expect(typed.setTypeOfService(16).getTypeOfService()).toBe(16);
    stream.write('early');
    expect(shown()).toEqual({ ...opening, bytesWritten: 5, bufferSize: 5 });
    const told: string[] = [];
    expect(stream.connect(9, 'elsewhere', () => told.push('connected'))).toBe(stream);
    let text = '';
    stream.on('data', (data) => {
      text += data;
    });
    await until('it came back', () => text === 'a\nearly');
    expect(told).toEqual(['connected']);
    expect(typed.getTypeOfService()).toBe(16);
    stream.setTimeout(60_000);
    const isOpen = { pending: false, connecting: false, readyState: 'open', bytesRead: 7, timeout: 60_000 };
    expect(shown()).toEqual({ ...isOpen, bytesWritten: 5, bufferSize: 0 });
    stream.cork();
    stream.write('late');
    expect(shown()).toEqual({ ...isOpen, bytesWritten: 9, bufferSize: 4 });
    stream.uncork();
    const { port } = pod.endpoint;
    expect(stream).toMatchObject({
      localAddress: '127.0.0.1',
      localFamily: 'IPv4',
      remoteFamily: 'IPv4',
      remotePort: port,
    });
    expect(stream.address()).toEqual({ address: '127.0.0.1', family: 'IPv4', port: stream.localPort });
    stream.destroySoon();
    await once(stream, 'close');
    expect(stream).toMatchObject({ readyState: 'closed', pending: true, bytesWritten: 9 });
    await until('the pod got all of it', () => pod.stats.open === 0);
  });

  it('reset its connection, or abort connecting', async () => {
    const server = createServer((socket) => void socket.on('error', ({ message }) => heard.push(message)).resume());
    const heard: string[] = [];
    await once(server.listen(0, '127.0.0.1'), 'listening');
    open.push({ [Symbol.asyncDispose]: async () => void server.close() });
    const { port } = server.address() as AddressInfo;
    const made = connector({ resolver: staticEndpoints([{ address: '127.0.0.1', port }]) });
    const stream = made.createConnection();
    await once(stream, 'connect');
    stream.resetAndDestroy();
    await until('the pod sees it', () => heard.length === 1);
    expect(heard).toEqual(['read ECONNRESET']);
    const early = made.createConnection();
    early.resetAndDestroy();
    await once(early, 'close');
    await until('they are given back', () => inFlight(made).every((count) => count === 0));
  });

  it('read no faster than the stream is read', async () => {
    const [pod] = (await startPods(1, { silent: true })) as [SocketPod];
    const made = connector({ resolver: staticEndpoints([pod.endpoint]) });
    const stream = made.createConnection();
    const block = Buffer.alloc(1024 * 1024, 'x');
    for (let sent = 0; sent < 16; sent++) stream.write(block);
    stream.end();
    await until('it reads no more', () => stream.readableLength >= stream.readableHighWaterMark);
    expect(stream.readableLength).toBeLessThan(1024 * 1024);
    let length = 0;
    for await (const chunk of stream) length += chunk.length;
    expect(length).toBe(16 * 1024 * 1024);
  });

  it('keep data that arrived before the other side ended the connection', async () => {
    const [pod] = (await startPods(1, { brief: true })) as [SocketPod];
    const made = connector({ resolver: staticEndpoints([pod.endpoint]) });
    const stream = made.createConnection();
    await once(stream, 'connect');
    await until('it is over', () => pod.stats.accepted === 1 && pod.stats.open === 0 && inFlight(made)[0] === 0);
    let text = '';
    for await (const chunk of stream) text += chunk;
    expect(text).toBe('a\n');
    await until('it is closed', () => stream.closed);
    expect(stream.errored).toBeNull();
  });

  it('end the stream with an error where it cannot connect, and stop when the stream is destroyed', async () => {
    const refusing = await refusingEndpoint();
    const made = connector({ resolver: staticEndpoints([refusing]), waitTimeoutMs: 200 });
    const [error] = await once(made.createConnection(), 'error').catch((thrown) => [thrown]);
    expect(error).toMatchObject({ code: 'EVENKEEL_NOT_READY' });
    const waiting = connector({ resolver: staticEndpoints([refusing]), waitTimeoutMs: 60_000 });
    const stream = waiting.createConnection();
    await until('it waits', () => waiting.balancer.snapshot().waiting === 1);
    stream.destroy();
    await once(stream, 'close');
    expect(waiting.balancer.snapshot().waiting).toBe(0);
  });

  it('pass a lost connection on to the stream', async () => {
    const [pod] = (await startPods(1)) as [SocketPod];
    const made = connector({ resolver: staticEndpoints([pod.endpoint]) });
    const stream = made.createConnection();
    // Data and a reset that are read at once are data and an end for every socket of Node, so the pod's greeting is read first.
    await once(stream, 'data');
    const failed = once(stream, 'error');
    const closed = new Promise((resolve) => stream.once('close', resolve));
    await pod.command('reset');
    expect((await failed)[0]).toMatchObject({ code: 'ECONNRESET' });
    await closed;
    await until('it counts no longer', () => inFlight(made)[0] === 0);
  });

  it('serve an http.Agent by its callback', async () => {
    const pod = await Pod.start({ name: 'web' });
    open.push(pod);
    const made = connector({ resolver: staticEndpoints([pod.endpoint]) });
    const agent = new Agent();
    (agent as { createConnection: unknown }).createConnection = made.createConnection;
    const answer = await new Promise<number | undefined>((resolve, reject) => {
      request('http://broker.shop:5672/', { agent }, (response) => {
        response.resume();
        resolve(response.statusCode);
      })
        .on('error', reject)
        .end();
    });
    expect(answer).toBe(200);
  });
});

describe('the timeout of a stream', () => {
  const silent: Resolver = { name: 'silent', watch: () => ({ refresh() {}, close() {} }) };

  it('counts while it waits for a pod, as while a socket connects', async () => {
    const stream = connector({ resolver: silent, waitTimeoutMs: 60_000 }).createConnection() as Socket;
    let called = 0;
    stream.setTimeout(60_000);
    stream.setTimeout(20, () => {
      called++;
    });
    await once(stream, 'timeout');
    expect([called, stream.destroyed]).toEqual([1, false]);
    stream.destroy();
  });

  it('ends with 0, which removes its listener', async () => {
    const stream = connector({ resolver: silent, waitTimeoutMs: 60_000 }).createConnection() as Socket;
    let called = 0;
    const listener = (): void => {
      called++;
    };
    stream.setTimeout(10, listener);
    stream.setTimeout(0, listener);
    expect(stream.listenerCount('timeout')).toBe(0);
    // A timer that is longer, and was set later, would come after it.
    stream.setTimeout(20);
    await once(stream, 'timeout');
    expect(called).toBe(0);
    stream.destroy();
  });

  it('is that of its socket once it has one', async () => {
    const [pod] = await startPods(1);
    const made = connector({ resolver: staticEndpoints([(pod as SocketPod).endpoint]) });
    const stream = made.createConnection() as Socket;
    stream.setTimeout(10_000);
    const heard: string[] = [];
    for (const event of ['connect', 'ready', 'timeout']) stream.on(event, () => heard.push(event));
    await once(stream, 'ready');
    stream.setTimeout(20);
    await once(stream, 'timeout');
    expect(heard).toEqual(['connect', 'ready', 'timeout']);
    stream.destroy();
  });
});

describe('a pod that leaves', () => {
  async function world(options: ConnectorOptions, pods = 2) {
    const started = await startPods(pods);
    const resolver = new FakeResolver();
    const made = connector({ resolver, ...options });
    resolver.update(...started.map(({ endpoint }) => endpoint));
    await made.balancer.ready();
    return { made, resolver, pods: started as [SocketPod, SocketPod] };
  }

  it('notifies its connections, and they move when it suits them', async () => {
    const told: [ConnectionLeaving, Socket][] = [];
    const { made, resolver, pods } = await world({
      leaveSpreadMs: 50,
      onLeaving: (leaving, socket) => void told.push([leaving, socket]),
    });
    const [leaver, stayer] = pods;
    await Promise.all(Array.from({ length: 10 }, () => made.connect()));
    resolver.update(stayer.endpoint);
    await until('all are told', () => told.length === 5);
    for (const [{ reason, endpoint, untilMs }, socket] of told) {
      expect([reason, endpoint.port, socket.remotePort]).toEqual([
        'endpoint',
        leaver.endpoint.port,
        leaver.endpoint.port,
      ]);
      expect(untilMs).toBeGreaterThan(performance.now() + 10_000);
      socket.end();
      const moved = await made.connect();
      expect(moved.remotePort).toBe(stayer.endpoint.port);
    }
    await until('it is left', () => leaver.stats.open === 0 && leaver.stats.ended === 5);
    await until('all are there', () => stayer.stats.open === 10);
  });

  it('loses its connections without a listener in time, closed as their protocol does', async () => {
    const { made, resolver, pods } = await world({ pool: { drainTimeoutMs: 300 }, leaveSpreadMs: 100 });
    const [leaver, stayer] = pods;
    const finish = (socket: Socket): void => void socket.end('QUIT\n');
    const sockets = await Promise.all(Array.from({ length: 4 }, () => made.connect({ finish })));
    for (const socket of sockets) socket.resume();
    resolver.update(stayer.endpoint);
    await until('they are closed', () => leaver.stats.open === 0 && leaver.stats.ended === 2);
    expect(leaver.stats.received).toBe('QUIT\nQUIT\n');
    await until('closed on this side', () => sockets.filter(({ destroyed }) => destroyed).length === 2);
    expect(stayer.stats.open).toBe(2);
  });

  it('and dies loses its connections at once, and the others get the new ones', async () => {
    const { made, pods } = await world({});
    const [killed, stayer] = pods;
    const sockets = await Promise.all(Array.from({ length: 10 }, () => made.connect()));
    let lost = 0;
    for (const socket of sockets) {
      socket.on('error', () => {});
      socket.resume();
      socket.once('close', () => void lost++);
    }
    await killed.kill();
    await until('they end', () => lost === 5);
    const moved = await Promise.all(Array.from({ length: 5 }, () => made.connect()));
    for (const socket of moved) expect(socket.remotePort).toBe(stayer.endpoint.port);
  });

  it('gets its share again after it reset all its connections', async () => {
    const { made, pods } = await world({ rebalance: { ratioPerMinute: 60 } }, 2);
    let closing = false;
    const unlessClosing = (error: unknown): void => {
      if (!closing) throw error;
    };
    const keepOne = async (): Promise<void> => {
      const socket = await made.connect();
      socket
        .resume()
        .on('error', () => {})
        // With a pause, as clients reconnect: by then the pod is ejected for its resets.
        .once('close', () => {
          if (!closing) setTimeout(() => keepOne().catch(unlessClosing), 50);
        });
    };
    open.push({
      [Symbol.asyncDispose]: async () => {
        closing = true;
      },
    });
    await Promise.all(Array.from({ length: 24 }, keepOne));
    await until('they are even', () => pods.every(({ stats }) => stats.open === 12));
    const { accepted } = pods[1].stats;
    await pods[0].command('reset');
    // Counted as they come: on a slow machine the pod is back before the last of them is here.
    await until('they went to the other pod', () => pods[1].stats.accepted - accepted >= 11);
    await until('they are even enough again', () => pods.every(({ stats }) => stats.open >= 9));
    closing = true;
  });

  it('is balanced again after a scale-out if asked to', async () => {
    const { made, resolver, pods } = await world({ rebalance: { ratioPerMinute: 60 } }, 2);
    const unlessClosing = (error: unknown): void => {
      if (!closing) throw error;
    };
    const keepOne = async (): Promise<void> => {
      const socket = await made.connect();
      socket.resume().once('close', () => {
        if (!closing) keepOne().catch(unlessClosing);
      });
    };
    let closing = false;
    open.push({
      [Symbol.asyncDispose]: async () => {
        closing = true;
      },
    });
    await Promise.all(Array.from({ length: 12 }, keepOne));
    const more = await startPods(2);
    resolver.update(...[...pods, ...more].map(({ endpoint }) => endpoint));
    await until('they are even', () => more.every(({ stats }) => stats.open >= 2));
    expect(pods.every(({ stats }) => stats.open <= 4)).toBe(true);
    closing = true;
  });
});

describe('close', () => {
  it('notifies open connections, waits for them, and opens no more', async () => {
    const [pod] = (await startPods(1)) as [SocketPod];
    const told: string[] = [];
    const made = createConnector('broker.shop:5672', {
      resolver: staticEndpoints([pod.endpoint]),
      onLeaving: ({ reason }, socket) => {
        told.push(reason);
        socket.resume().end();
      },
    });
    await Promise.all([made.connect(), made.connect()]);
    await made.close();
    expect(told).toEqual(['close', 'close']);
    await until('they are closed', () => pod.stats.open === 0);
    await expect(made.connect()).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
  });

  it('cuts open connections and dials in progress when its signal aborts', async () => {
    const [pod] = (await startPods(1)) as [SocketPod];
    const hanging = await HangingEndpoint.start();
    open.push(hanging);
    const made = connector({
      resolver: staticEndpoints([pod.endpoint, hanging.endpoint]),
      pool: { connectTimeoutMs: 60_000 },
    });
    const connecting = [made.connect(), made.connect()];
    await until('one is open', () => pod.stats.open === 1);
    const failed = Promise.allSettled(connecting);
    await made.close({ signal: AbortSignal.abort() });
    const results = await failed;
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    await until('it is closed', () => pod.stats.open === 0);
  });
});
