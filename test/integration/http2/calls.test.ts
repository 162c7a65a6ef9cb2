import { once } from 'node:events';
import { constants, createServer, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks';
import { Worker } from 'node:worker_threads';
import { Code, ConnectError } from '@connectrpc/connect';
import { createEndpoint } from 'evenkeel';
import type { Http2Options } from 'evenkeel/http2';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { resolveHttp2Options } from '../../../src/adapter/http2/options.js';
import { Http2Session, Keepalive } from '../../../src/adapter/http2/session.js';
import { http2Transport } from '../../../src/adapter/http2/transport.js';
import { openSocket } from '../../../src/adapter/kit/index.js';
import { createCertificate } from '../../servers/index.js';
import { ConnectPod } from '../../support/pods/connect-pods.js';
import { RefusingHttp2Pod } from '../../support/pods/refusing-http2-pod.js';
import { buildPackage, outputOf } from '../../support/programs/programs.js';
import { until } from '../../support/until.js';
import {
  all,
  bodyOf,
  connected,
  http2Over,
  inFlight,
  messages,
  ordersOver,
  origin,
  podOf,
  protocols,
} from './support/orders.js';

/** Calls at once; 1,500 in a proof. */
const CALLS = process.env.EVENKEEL_PROOF === '1' ? 1_500 : 500;

let pods: ConnectPod[];
let pod: ConnectPod;
let other: ConnectPod;
beforeAll(async () => {
  pods = await ConnectPod.startAll(2, { maxStreams: 100 });
  [pod, other] = pods as [ConnectPod, ConnectPod];
});
afterAll(async () => {
  for (const one of pods) await one[Symbol.asyncDispose]();
});

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const one of open.splice(0)) await one[Symbol.asyncDispose]();
  for (const one of pods) await one.command('release');
  await until('no session is left', () => pods.every(({ stats }) => stats.open === 0 && stats.running === 0));
});

async function startOrders(...args: Parameters<typeof ordersOver>) {
  const started = await ordersOver(...args);
  open.push(started.manager);
  return started;
}

async function startHttp2(...args: Parameters<typeof http2Over>) {
  const started = await http2Over(...args);
  open.push(started.http2);
  return started;
}

/** What a session of Node says when it ends, as far as tests read it. */
type SessionDetail = { readonly type: string; readonly framesSent: number };

const codeOf = (error: unknown): Code => ConnectError.from(error).code;

describe.each(protocols)('%s', (protocol) => {
  it('every call goes to the next pod in turn, unary or stream', async () => {
    const { orders, attempts } = await startOrders(pods, protocol);
    const turns: string[][] = [];
    for (let round = 0; round < 2; round++) {
      turns.push([
        podOf(await orders.say({ value: 'hello' })),
        podOf(await orders.get({ value: 'hello' })),
        podOf(await orders.collect(messages('1', '2', '3'))),
        ...new Set((await all(orders.count({ value: 'count 3' }))).map((value) => podOf({ value }))),
        ...new Set((await all(orders.chat(messages('1', '2')))).map((value) => podOf({ value }))),
      ]);
    }
    expect(turns.flat()).toHaveLength(10);
    for (const [index, name] of turns.flat().entries()) expect(name === turns.flat()[0]).toBe(index % 2 === 0);
    expect(attempts.every(({ outcome: { kind } }) => kind === 'success')).toBe(true);
    expect(await orders.collect(messages('1', '2', '3'))).toMatchObject({ value: expect.stringMatching(/ 1\+2\+3$/) });
  });

  it('a unary request takes two frames: its headers, and its message with the end of the stream', async () => {
    const sent: number[] = [];
    const observer = new PerformanceObserver((list) => {
      for (const { name, detail } of list.getEntries() as (PerformanceEntry & { readonly detail: SessionDetail })[]) {
        if (name === 'Http2Session' && detail.type === 'client') sent.push(detail.framesSent);
      }
    });
    observer.observe({ entryTypes: ['http2'] });
    const { orders, manager } = await startOrders([pod], protocol);
    for (let call = 0; call < 20; call++) await orders.say({ value: 'hello' });
    await manager.close();
    await until('the session has said how many frames it sent', () => sent.length > 0);
    observer.disconnect();
    // The session's own frames, such as SETTINGS and GOAWAY, are fewer than 10.
    expect(sent[0]).toBeGreaterThanOrEqual(40);
    expect(sent[0]).toBeLessThan(50);
  });

  it('a call that a pod refuses goes to another with all that was sent of it, and fails if all refuse', async () => {
    await using refusing = await ConnectPod.start({ refuse: true });
    const { orders, attempts } = await startOrders([refusing, pod], protocol);
    for (let round = 0; round < 2; round++) {
      expect(await orders.say({ value: 'hello' })).toMatchObject({ value: 'a hello' });
      expect(await orders.collect(messages('1', '2', '3'))).toMatchObject({ value: 'a 1+2+3' });
      expect(await all(orders.count({ value: 'count 2' }))).toEqual(['a 1', 'a 2']);
    }
    expect(attempts.filter(({ retrying }) => retrying).length).toBeGreaterThan(0);
    const alone = await startOrders([refusing], protocol);
    await expect(alone.orders.say({ value: 'hello' })).rejects.toThrow('NGHTTP2_REFUSED_STREAM');
    for (const client of open.splice(0)) await client[Symbol.asyncDispose]();
  });

  it('a long stream arrives whole in both directions, with pauses on either side', async () => {
    const { orders } = await startOrders([pod], protocol);
    async function* parts(): AsyncGenerator<{ value: string }> {
      for (let part = 0; part < 20; part++) {
        yield { value: String(part % 10).repeat(10_000) };
        if (part % 5 === 0) await new Promise(setImmediate);
      }
    }
    expect((await orders.collect(parts())).value).toHaveLength('a '.length + 20 * 10_001 - 1);
    let received = 0;
    for await (const { value } of orders.count({ value: 'count 10000' })) {
      expect(value).toBe(`a ${++received}`);
      if (received % 1_000 === 0) await new Promise(setImmediate);
    }
    expect(received).toBe(10_000);
  });

  it('an error of the pod reaches the caller unchanged, and counts for or against the pod by its code', async () => {
    const { orders, attempts } = await startOrders([pod], protocol);
    const ends: (string | undefined)[] = [];
    for (const code of [Code.NotFound, Code.Unimplemented, Code.Unavailable, Code.Internal, Code.ResourceExhausted]) {
      await expect(orders.say({ value: `error ${code}` })).rejects.toMatchObject({ code, rawMessage: 'as asked' });
      await expect(all(orders.count({ value: `error ${code}` }))).rejects.toMatchObject({ code });
    }
    await until('all have ended', () => attempts.length === 10);
    for (const { outcome } of attempts) ends.push(outcome.cause ?? outcome.kind);
    const pairs = ['success', 'success', 'status', 'status', 'overload'].flatMap((end) => [end, end]);
    expect(ends).toEqual(pairs);
  });

  it('a call ends at its deadline, and when its caller gives up, on the pod too', async () => {
    const { orders, manager, attempts } = await startOrders([pod], protocol);
    await expect(orders.say({ value: 'hang' }, { timeoutMs: 50 })).rejects.toMatchObject({
      code: Code.DeadlineExceeded,
    });
    const giveUp = new AbortController();
    const call = orders.say({ value: 'hang' }, { signal: giveUp.signal });
    await until('the pod has it', () => pod.stats.running === 1);
    giveUp.abort();
    expect(codeOf(await call.catch((error) => error))).toBe(Code.Canceled);
    const leave = new AbortController();
    const stream = orders.count({ value: 'tick' }, { signal: leave.signal })[Symbol.asyncIterator]();
    await stream.next();
    leave.abort();
    await until('nothing runs there', () => pod.stats.running === 0 && inFlight(manager) === 0);
    expect(attempts.map(({ outcome }) => outcome.cause ?? outcome.kind)).toEqual(['timeout', 'cancelled', 'cancelled']);
  });

  it('a call is over when its response is, although the caller has more to send', async () => {
    const { orders, manager } = await startOrders([pod], protocol);
    const never = new Promise<void>(() => {});
    async function* unfinished(first: string): AsyncGenerator<{ value: string }> {
      yield { value: first };
      await never;
    }
    await expect(all(orders.chat(unfinished(`error ${Code.NotFound}`)))).rejects.toMatchObject({ code: Code.NotFound });
    expect((await all(orders.chat(unfinished('bye')))).map((value) => value.split(' ')[1])).toEqual(['bye']);
    await until('nothing runs there', () => pod.stats.running === 0 && inFlight(manager) === 0);
  });
});

describe('a call that no pod can take', () => {
  it('fails as unavailable, with the error of evenkeel as its cause', async () => {
    const { orders } = await startOrders([], 'gRPC', { resolver: 'static:127.0.0.1:1', waitTimeoutMs: 50 });
    const error = ConnectError.from(await orders.say({ value: 'hello' }).catch((reason) => reason));
    expect(error.code).toBe(Code.Unavailable);
    expect(error.cause).toMatchObject({ code: 'EVENKEEL_NOT_READY' });
  });

  it('that is given up while it waits is never sent', async () => {
    const before = pod.stats.requests;
    const options: Http2Options = { maxConcurrentStreams: 1, connections: 1 };
    const { orders, manager } = await startOrders([pod], 'Connect', options);
    const first = orders.say({ value: 'hang' });
    await until('the only place is taken', () => pod.stats.running === 1);
    await expect(orders.say({ value: 'late' }, { timeoutMs: 50 })).rejects.toMatchObject({
      code: Code.DeadlineExceeded,
    });
    const giveUp = new AbortController();
    const call = orders.say({ value: 'late' }, { signal: giveUp.signal });
    giveUp.abort();
    expect(codeOf(await call.catch((error) => error))).toBe(Code.Canceled);
    await pod.command('release');
    await first;
    await orders.say({ value: 'last' });
    await until('the pod got these two only', () => pod.stats.requests - before === 2);
    await until('no call is left', () => inFlight(manager) === 0);
  });
});

describe('the sessions to a pod', () => {
  it(`grow with the streams: 250 calls at once take three, and ${CALLS} over two pods all succeed`, async () => {
    const opened = pod.stats.opened;
    const { orders, manager } = await startOrders([pod]);
    const calls = Array.from({ length: 250 }, () => orders.say({ value: 'hang' }));
    await until('all run', () => pod.stats.running === 250);
    expect(pod.stats.opened - opened).toBe(3);
    expect(manager.balancer.snapshot().endpoints[0]).toMatchObject({ capacity: 300, connections: 3 });
    await pod.command('release');
    await Promise.all(calls);
    const both = await startOrders(pods, 'Connect', { waitTimeoutMs: 60_000 });
    const answers = await Promise.all(Array.from({ length: CALLS }, () => both.orders.say({ value: 'hello' })));
    expect(new Set(answers.map(podOf))).toEqual(new Set(['a', 'b']));
  });

  it('carry running streams to their end after a GOAWAY, and no new call', async () => {
    const opened = pod.stats.opened;
    const { orders, manager, attempts } = await startOrders([pod]);
    const stream = orders.count({ value: 'tick' })[Symbol.asyncIterator]();
    await stream.next();
    await pod.command('goaway');
    await until('there is another', () => pod.stats.opened - opened === 2);
    await connected(manager, 1);
    await orders.say({ value: 'hello' });
    for (let message = 0; message < 5; message++) expect((await stream.next()).done).toBe(false);
    expect(pod.stats.open).toBe(2);
    await pod.command('release');
    while ((await stream.next()).done !== true);
    await until('the first is closed', () => pod.stats.open === 1);
    expect(attempts.map(({ outcome: { kind } }) => kind)).toEqual(['success', 'success']);
  });

  it('are closed after a GOAWAY once their streams have ended, even if the pod keeps the connection', async () => {
    const server = createServer();
    const sessions: ServerHttp2Session[] = [];
    const held: ServerHttp2Stream[] = [];
    server.on('session', (session) => sessions.push(session));
    server.on('stream', (stream) => held.push(stream));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const endpoint = createEndpoint({ address: '127.0.0.1', port: (server.address() as AddressInfo).port });
    const service = new URL('http://orders.shop');
    const transport = http2Transport(service, resolveHttp2Options(service, {}));
    const { signal } = new AbortController();
    const idle = await transport.connect(endpoint, signal);
    const busy = await transport.connect(endpoint, signal);
    const session = busy.handle.next();
    const stream = session?.request({ ':path': '/hold' }, {}).resume();
    if (session === undefined || stream === undefined) throw new Error('no session');
    busy.handle.callStarted(session);
    stream.on('close', () => busy.handle.callEnded(session));
    await until('the pod has it', () => held.length === 1);
    for (const one of sessions) one.goaway(0, held[0]?.id);
    await until('the idle session is closed', () => idle.handle.sockets === 0);
    expect(busy.handle.sockets).toBe(1);
    held[0]?.respond({ ':status': 204 }, { endStream: true });
    await until('the other one is closed', () => busy.handle.sockets === 0);
    for (const one of sessions) one.destroy();
    server.close();
  });

  it('take no more calls from the GOAWAY of an error on: new calls wait for the next session', async () => {
    const server = createServer();
    server.on('sessionError', () => {});
    const sessions: ServerHttp2Session[] = [];
    server.on('session', (session) => sessions.push(session));
    server.on('stream', (stream) => {
      stream.on('error', () => {});
      stream.respond({ ':status': 200 });
      stream.end('ok');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const { http2 } = await startHttp2([{ endpoint: { address: '127.0.0.1', port } }]);
    const call = () => once(http2.request({ ':method': 'POST', ':path': '/' }).resume().end(), 'end');
    for (let round = 0; round < 3; round++) {
      const request = http2.request({ ':path': '/' });
      await once(request, 'response');
      const { session: own } = request;
      await once(request.resume(), 'end');
      // In the turn of the GOAWAY, before the session has closed.
      const called = new Promise((resolve) => own?.once('goaway', () => resolve(call())));
      for (const session of sessions) if (!session.destroyed) session.goaway(constants.NGHTTP2_INTERNAL_ERROR);
      await called;
    }
    await http2.close();
    for (const session of sessions) session.destroy();
    server.close();
  });

  it('are closed after a GOAWAY in the middle of traffic, even if the pod keeps the connection', async () => {
    const server = createServer();
    const sessions: ServerHttp2Session[] = [];
    server.on('session', (session) => sessions.push(session));
    server.on('stream', (stream) => {
      // Node's server refuses on its side what came after its GOAWAY.
      stream.on('error', () => {});
      stream.respond({ ':status': 200 });
      setImmediate(() => stream.end('ok'));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const { http2 } = await startHttp2([{ endpoint: { address: '127.0.0.1', port } }]);
    let calls = 0;
    let isOver = false;
    const callers = Array.from({ length: 8 }, async () => {
      while (!isOver) {
        await once(http2.request({ ':path': '/' }).resume(), 'end');
        calls++;
      }
    });
    for (let goaways = 1; goaways <= 5; goaways++) {
      const before = calls;
      await until('calls go on', () => calls > before + 50);
      for (const session of sessions) if (!session.destroyed) session.goaway(0);
      await until('there is another session', () => sessions.length > goaways);
    }
    isOver = true;
    await Promise.all(callers);
    await http2.close();
    for (const session of sessions) session.destroy();
    server.close();
  });

  it('are lost with an error when the pod resets them while they write, which Node takes for an orderly end', async () => {
    const state = new Int32Array(new SharedArrayBuffer(4));
    const server = new Worker(new URL('support/resetting-server.mjs', import.meta.url), { workerData: { state } });
    const [port] = (await once(server, 'message')) as [number];
    const service = new URL('http://orders.shop');
    const transport = http2Transport(service, resolveHttp2Options(service, {}));
    const endpoint = createEndpoint({ address: '127.0.0.1', port });
    const { closed, handle } = await transport.connect(endpoint, new AbortController().signal);
    // In this turn the pod's settings have arrived, and are acknowledged at its end: by then the connection is reset.
    Atomics.store(state, 0, 1);
    Atomics.notify(state, 0);
    Atomics.wait(state, 0, 1);
    await expect(closed).resolves.toMatchObject({ code: 'ECONNRESET' });
    expect(handle.failure).toMatchObject({ code: 'ECONNRESET' });
    await server.terminate();
  });

  it('slow their PINGs down once, however often the pod says on one of them that there are too many', async () => {
    const server = createServer();
    server.on('session', (session) => {
      for (let times = 0; times < 40; times++) session.goaway(0, 0, Buffer.from('too_many_pings'));
      session.close();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const endpoint = createEndpoint({ address: '127.0.0.1', port: (server.address() as AddressInfo).port });
    const service = new URL('http://orders.shop');
    const keepalive = new Keepalive(1_000);
    const context = { origin: service, options: resolveHttp2Options(service, {}), keepalive };
    const events = { ready: () => {}, lost: () => {} };
    const { closed } = new Http2Session(
      endpoint,
      context,
      (signal) => openSocket(endpoint, signal),
      events,
      () => {},
    );
    await closed;
    expect(keepalive.intervalMs(endpoint)).toBe(2_000);
    server.close();
  });

  it('are sent a PING when they are silent, and are closed when nothing answers it', async () => {
    await using frozen = await ConnectPod.start();
    const options = { pingIntervalMs: 1_000, pingTimeoutMs: 500 };
    const { orders, manager } = await startOrders([frozen], 'Connect', options);
    await orders.say({ value: 'hello' });
    const call = orders.say({ value: 'hang' });
    await until('the pod has it', () => frozen.stats.running === 1);
    frozen.freeze();
    await expect(call).rejects.toMatchObject({ rawMessage: expect.stringContaining('did not answer a PING') });
    expect(inFlight(manager)).toBe(0);
    frozen.thaw();
  });
});

describe('TLS', () => {
  const authority = createCertificate({ commonName: 'authority' });
  const tls = { ca: authority.cert };
  const secure = 'https://orders.shop';

  it('accepts pods with a certificate for the Service, whatever their address, and no others', async () => {
    const { cert, key } = createCertificate({ hosts: ['orders.shop'], issuer: authority });
    await using ours = await ConnectPod.start({ tls: { cert, key } });
    const { orders, manager } = await ordersOver([ours], 'gRPC', { tls: () => Promise.resolve(tls) }, secure);
    expect(podOf(await orders.say({ value: 'hello' }))).toBe('pod');
    await until('it got it', () => ours.stats.paths[0] === 'POST https://orders.shop:443/shop.Orders/Say');
    await manager.close();

    const stranger = createCertificate({ hosts: ['stock.shop'], issuer: authority });
    await using theirs = await ConnectPod.start({ tls: { cert: stranger.cert, key: stranger.key } });
    const resolver = `static:127.0.0.1:${theirs.endpoint.port}`;
    const wrong = await ordersOver([], 'gRPC', { tls, resolver, waitTimeoutMs: 200 }, secure);
    await expect(wrong.orders.say({ value: 'hello' })).rejects.toMatchObject({ code: Code.Unavailable });
    expect(theirs.stats.requests).toBe(0);
    await wrong.manager.close();
  });
});

describe('a health check', () => {
  const never = new AbortController().signal;

  /** A connection to the pod, and the health check that is made over it. */
  async function check(options: Http2Options): Promise<(signal?: AbortSignal) => Promise<void>> {
    const url = new URL(origin);
    const connection = await http2Transport(url, resolveHttp2Options(url, options)).connect(
      createEndpoint(pod.endpoint),
      never,
    );
    open.push({ [Symbol.asyncDispose]: () => connection.close(never) });
    return async (signal = never) => connection.ping?.(signal);
  }

  it('with healthPath sends a GET, and passes with a status below 400', async () => {
    await (await check({ healthPath: '/status/204' }))();
    await until('the pod got it', () => pod.stats.paths.at(-1) === 'GET http://orders.shop:8080/status/204');
    const ill = await check({ healthPath: '/status/503/?token=secret' });
    await expect(ill()).rejects.toThrow('/status/503/?… answered 503');
    const reset = await check({ healthPath: '/reset/2' });
    await expect(reset()).rejects.toMatchObject({ code: 'ERR_HTTP2_STREAM_ERROR' });
  });

  it('with healthPath is aborted by its signal, on the pod too', async () => {
    const hanging = await check({ healthPath: '/hold' });
    const giveUp = new AbortController();
    const checked = expect(hanging(giveUp.signal)).rejects.toThrow('too late');
    await until('the pod has it', () => pod.stats.running === 1);
    giveUp.abort(new Error('too late'));
    await checked;
    await until('the pod has lost it', () => pod.stats.running === 0);
  });

  it('without healthPath sends a PING, and no request', async () => {
    const ping = await check({});
    const before = pod.stats.requests;
    await ping();
    pod.freeze();
    await expect(ping(AbortSignal.timeout(50))).rejects.toMatchObject({ name: 'TimeoutError' });
    pod.thaw();
    await ping();
    expect(pod.stats.requests).toBe(before);
  });
});

describe('retry.statuses', () => {
  /** Sends two requests that pod b answers with 503, and that pod b is the first to get at least one of. */
  async function askBoth(method: string, options: Http2Options): Promise<[statuses: unknown[], retried: unknown[]]> {
    const { http2, attempts } = await startHttp2(pods, options);
    const statuses: unknown[] = [];
    for (let turn = 0; turn < 2; turn++) {
      const stream = http2.request({ ':method': method, ':path': '/only/a' }).end();
      const [head] = await once(stream, 'response');
      statuses.push(head[':status']);
      await bodyOf(stream);
    }
    await until('the attempts have ended', () => inFlight(http2) === 0);
    return [
      statuses.sort(),
      [...new Set(attempts.filter(({ retrying }) => retrying).map(({ outcome: { cause } }) => cause))],
    ];
  }

  it("names the responses that are discarded in favor of another pod's, if the request may be sent twice", async () => {
    const retry = { statuses: [503] };
    expect(await askBoth('GET', { retry })).toEqual([[200, 200], ['status']]);
    expect(await askBoth('POST', { retry })).toEqual([[200, 503], []]);
    expect(await askBoth('GET', { retry: { statuses: [502] } })).toEqual([[200, 503], []]);
    expect(await askBoth('GET', {})).toEqual([[200, 503], []]);
  });

  it('leaves the last response to the caller when there is no other pod', async () => {
    const { http2, attempts } = await startHttp2(pods, { retry: { statuses: [404] } });
    const stream = http2.request({ ':path': '/status/404' });
    expect((await once(stream, 'response'))[0]).toMatchObject({ ':status': 404 });
    expect(await bodyOf(stream)).toMatch(/^[ab]$/);
    await until('both have been asked', () => attempts.length === 2);
    expect(attempts.map(({ retrying }) => retrying)).toEqual([true, false]);
  });
});

describe('a request of node:http2', () => {
  it('gets head, body and trailers from a pod as over a session, with the Service as authority', async () => {
    const { http2 } = await startHttp2([pod]);
    const stream = http2.request({ ':method': 'POST', ':path': '/echo', 'x-asked': 'yes' });
    const trailers = once(stream, 'trailers');
    stream.write('hel');
    stream.end('lo');
    const [head] = await once(stream, 'response');
    expect(head).toMatchObject({ ':status': 200, 'x-pod': 'a' });
    expect(await bodyOf(stream)).toBe('hello');
    expect((await trailers)[0]).toMatchObject({ 'x-trailer': 'end' });
    await until('it is closed', () => stream.destroyed);
    expect(stream.rstCode).toBe(0);
    await until('the pod got it', () => pod.stats.paths.at(-1) === 'POST http://orders.shop:8080/echo');
  });

  it('emits continue, then headers, then response, as a stream of Node does', async () => {
    const { http2 } = await startHttp2([pod]);
    const stream = http2.request({ ':method': 'POST', ':path': '/echo', expect: '100-continue' });
    const events: string[] = [];
    for (const name of ['continue', 'headers', 'response']) stream.on(name, () => events.push(name));
    stream.on('continue', () => stream.end('hello'));
    expect(await bodyOf(stream)).toBe('hello');
    expect(events).toEqual(['continue', 'headers', 'response']);
  });

  it('sends a large body in both directions, with pauses on either side', async () => {
    const { http2 } = await startHttp2([pod]);
    const stream = http2.request({ ':method': 'POST', ':path': '/echo' });
    const part = Buffer.alloc(300_000, 'x');
    let received = 0;
    for (let sent = 0; sent < 10; sent++) if (!stream.write(part)) setImmediate(() => {});
    stream.end();
    for await (const chunk of stream) {
      received += (chunk as Buffer).length;
      if (received % 7 === 0) await new Promise(setImmediate);
    }
    expect(received).toBe(3_000_000);
  });

  it('without a body needs no end(), and a GET whose connection is cut is sent to another pod', async () => {
    const { http2, attempts } = await startHttp2(pods);
    expect(await bodyOf(http2.request())).toMatch(/^[ab]$/);
    await until('it is over there', () => pod.stats.running + other.stats.running === 0);
    const stream = http2.request({ ':path': '/hold' });
    await until('one has it', () => pod.stats.running + other.stats.running === 1);
    const [cut, next] = pod.stats.running === 1 ? [pod, other] : [other, pod];
    await cut.command('reset');
    await until('the other has it', () => next.stats.running === 1);
    await next.command('release');
    expect(await bodyOf(stream)).toBe(next.name);
    await until('all have ended', () => attempts.length === 3);
    expect(attempts.map(({ outcome, retrying }) => [outcome.cause ?? outcome.kind, retrying])).toEqual([
      ['success', false],
      ['reset', true],
      ['success', false],
    ]);
  });

  it('that may have been processed is not sent twice', async () => {
    const { http2, attempts } = await startHttp2(pods);
    const stream = http2.request({ ':method': 'POST', ':path': '/hold' });
    stream.end('once');
    const ended = expect(bodyOf(stream)).rejects.toMatchObject({ code: 'ECONNRESET' });
    await until('one has it', () => pod.stats.running + other.stats.running === 1);
    await (pod.stats.running === 1 ? pod : other).command('reset');
    await ended;
    expect(attempts.map(({ outcome, retrying }) => [outcome.cause, retrying])).toEqual([['reset', false]]);
  });

  it('that a pod refuses goes to another with its body, and fails if all refuse', async () => {
    await using refusing = await ConnectPod.start({ refuse: true });
    const { http2, attempts } = await startHttp2([refusing, pod]);
    for (let round = 0; round < 4; round++) {
      const stream = http2.request({ ':method': 'POST', ':path': '/echo' });
      stream.end(`body ${round}`);
      expect(await bodyOf(stream)).toBe(`body ${round}`);
    }
    expect(attempts.filter(({ retrying }) => retrying).length).toBeGreaterThan(0);
    for (const { outcome } of attempts) expect(['success', 'not-started']).toContain(outcome.kind);
    const alone = await startHttp2([refusing]);
    const stream = alone.http2.request({ ':method': 'POST', ':path': '/echo' });
    stream.end('body');
    await expect(bodyOf(stream)).rejects.toThrow('NGHTTP2_REFUSED_STREAM');
    expect(stream.rstCode).toBe(7);
    for (const client of open.splice(0)) await client[Symbol.asyncDispose]();
  });

  it('is sent again as often as sessions from before it get a GOAWAY, and fails if two new ones do as well', async () => {
    await using refusing = await RefusingHttp2Pod.start(undefined, 'goaway');
    const sessions = 4;
    const { http2, attempts } = await startHttp2([refusing], { connections: sessions });
    await until('all sessions are open', () => refusing.connections === sessions);
    await expect(bodyOf(http2.request({ ':method': 'POST', ':path': '/echo' }).end('once'))).rejects.toMatchObject({
      message: expect.stringContaining('NGHTTP2_REFUSED_STREAM'),
    });
    // New sessions may be used before all of the old ones are.
    expect(refusing.requests).toBeGreaterThan(2);
    expect(refusing.requests).toBeLessThanOrEqual(sessions + 2);
    expect(attempts).toHaveLength(refusing.requests);
  });

  it('that is cut after its response has begun is a failure of its pod, even if the connection is closed in order', async () => {
    const server = createServer();
    const sockets: Socket[] = [];
    server.on('connection', (socket: Socket) => sockets.push(socket));
    server.on('sessionError', () => {});
    server.on('stream', (stream) => {
      stream.on('error', () => {});
      stream.respond({ ':status': 200 });
      stream.write('a part');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const { http2, attempts } = await startHttp2([{ endpoint: { address: '127.0.0.1', port } }]);
    const stream = http2.request({ ':method': 'POST', ':path': '/part' });
    stream.on('error', () => {});
    stream.end('once');
    await once(stream, 'data');
    for (const socket of sockets) socket.destroy();
    server.close();
    await until('the call has ended', () => attempts.length === 1);
    expect(attempts.map(({ outcome: { cause }, retrying }) => [cause, retrying])).toEqual([['reset', false]]);
  });

  it('that a pod resets ends as on a session of Node', async () => {
    const { http2, attempts } = await startHttp2([pod]);
    const failed = http2.request({ ':method': 'POST', ':path': '/reset/2' }).end();
    await expect(bodyOf(failed)).rejects.toMatchObject({ code: 'ERR_HTTP2_STREAM_ERROR' });
    const cancelled = http2.request({ ':method': 'POST', ':path': '/reset/8' }).end();
    await once(cancelled, 'close');
    expect([failed.rstCode, cancelled.rstCode, cancelled.aborted]).toEqual([2, 8, false]);
    expect(attempts.map(({ outcome: { cause } }) => cause)).toEqual(['reset', 'reset']);
  });

  it('with headers that Node refuses fails, and is not held against the pod', async () => {
    const { http2, attempts } = await startHttp2([pod]);
    await expect(bodyOf(http2.request({ ':unknown': 'x' }))).rejects.toMatchObject({
      code: 'ERR_HTTP2_INVALID_PSEUDOHEADER',
    });
    expect(attempts.map(({ outcome: { kind } }) => kind)).toEqual(['cancelled']);
  });

  it('emits timeout once per silence, however often its limit was set, as a stream of Node does', async () => {
    const { http2 } = await startHttp2([pod]);
    const stream = http2.request({ ':path': '/hold' });
    let emitted = 0;
    let called = 0;
    stream.on('timeout', () => emitted++);
    stream.setTimeout(10_000, () => called++);
    await until('the pod has it', () => pod.stats.running === 1);
    stream.setTimeout(20);
    await once(stream, 'timeout');
    stream.setTimeout(10);
    await once(stream, 'timeout');
    expect([emitted, called]).toEqual([2, 1]);
    stream.close();
    await until('the pod has lost it', () => pod.stats.running === 0);
  });

  it('is ended by its signal, before it is sent and while it runs', async () => {
    const { http2 } = await startHttp2([pod]);
    const before = pod.stats.requests;
    await expect(bodyOf(http2.request({}, { signal: AbortSignal.abort() }))).rejects.toMatchObject({
      code: 'ABORT_ERR',
    });
    const giveUp = new AbortController();
    const stream = http2.request({ ':path': '/hold' }, { signal: giveUp.signal });
    await until('the pod has it', () => pod.stats.running === 1);
    const ended = expect(bodyOf(stream)).rejects.toMatchObject({ name: 'AbortError' });
    giveUp.abort();
    await ended;
    await until('the pod has lost it', () => pod.stats.running === 0);
    expect(pod.stats.requests - before).toBe(1);
  });
});

describe('close', () => {
  it('lets running streams finish, refuses new calls, and cuts what takes too long', async () => {
    const { orders, manager } = await startOrders([pod]);
    const call = orders.say({ value: 'hang' });
    await until('it runs', () => pod.stats.running === 1);
    const closing = manager.close();
    await expect(orders.say({ value: 'late' })).rejects.toMatchObject({ code: Code.Unavailable });
    await pod.command('release');
    expect(podOf(await call)).toBe('a');
    await closing;

    const impatient = await startOrders([pod], 'gRPC', { pool: { drainTimeoutMs: 50 } });
    const stream = impatient.orders.count({ value: 'tick' })[Symbol.asyncIterator]();
    await stream.next();
    const cut = (async () => {
      while ((await stream.next()).done !== true);
    })();
    cut.catch(() => {});
    await impatient.manager.close();
    await expect(cut).rejects.toThrow();
  });

  it('is not needed for a process to end, nor is the end of its calls', async () => {
    await buildPackage();
    const program = new URL('support/idle-client.mjs', import.meta.url).pathname;
    for (const how of ['idle', 'closed', 'calls']) {
      expect((await outputOf([program, how, String(pod.endpoint.port)])).trim()).toBe(`a hello\n${how}`);
    }
  });
});
