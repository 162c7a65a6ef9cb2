import { once } from 'node:events';
import { createServer, get, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client, credentials, Metadata, Server, ServerCredentials, type ServerUnaryCall } from '@grpc/grpc-js';
import { type Priority, staticEndpoints } from 'evenkeel';
import { type GrpcOptions, serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';
import { createAgent } from 'evenkeel/node-http';
import { FakeClock, FakeResolver } from 'evenkeel/testing';
import { createDispatcher, createFetch, type DispatcherOptions } from 'evenkeel/undici';
import { beforeEach, describe, expect, it } from 'vitest';
import { calledAfterEach } from '../../support/opened.js';
import { asIs, bytesMethod } from '../../support/pods/grpc-method.js';
import { until } from '../../support/until.js';

const DEADLINE = 'x-envoy-expected-rq-timeout-ms';
const PRIORITY = 'x-request-priority';
const origin = 'http://orders.shop:8080';

const closing = calledAfterEach();

/** What the pod heard last. */
let heard: IncomingHttpHeaders = {};
let port = 0;
beforeEach(async () => {
  const server = createServer((request, response) => {
    heard = request.headers;
    response.end('ok');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  port = (server.address() as AddressInfo).port;
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
});

const pod = () => ({ address: '127.0.0.1', port });
const context = (remainingMs: number | undefined, priority?: Priority) => ({
  current: () => ({ remainingMs, priority }),
});

type Send = (options: object, headers?: Record<string, string>) => Promise<IncomingHttpHeaders>;

const clients: Record<string, Send> = {
  undici: async (options, headers = {}) => {
    const dispatcher = createDispatcher(origin, { resolver: staticEndpoints([pod()]), ...options });
    closing.push(() => dispatcher.destroy());
    const { body } = await dispatcher.request({ path: '/', method: 'GET', headers });
    await body.dump();
    return heard;
  },
  'undici, hedged': async (options, headers = {}) => {
    const hedge = { afterMs: 3_600_000 };
    const dispatcher = createDispatcher(origin, { resolver: staticEndpoints([pod()]), hedge, ...options });
    closing.push(() => dispatcher.destroy());
    const { body } = await dispatcher.request({ path: '/', method: 'GET', headers });
    await body.dump();
    return heard;
  },
  'undici, headers as a list': async (options, headers = {}) => {
    const dispatcher = createDispatcher(origin, { resolver: staticEndpoints([pod()]), ...options });
    closing.push(() => dispatcher.destroy());
    const { body } = await dispatcher.request({ path: '/', method: 'GET', headers: Object.entries(headers).flat() });
    await body.dump();
    return heard;
  },
  fetch: async (options, headers = {}) => {
    const orders = createFetch(origin, { resolver: staticEndpoints([pod()]), ...options });
    closing.push(() => orders.dispatcher.destroy());
    await (await orders('/', { headers })).text();
    return heard;
  },
  'node:http': async (options, headers = {}) => {
    const agent = createAgent(origin, { resolver: staticEndpoints([pod()]), ...options });
    closing.push(() => agent.destroy());
    const request = get(`${origin}/`, { agent, headers });
    const [answer] = await once(request, 'response');
    answer.resume();
    await once(answer, 'end');
    return heard;
  },
};

describe.each(Object.entries(clients))('headers over %s', (_name, send) => {
  it('say how long the call will wait, and nothing without a deadline', async () => {
    expect(await send({})).not.toHaveProperty(DEADLINE);
    const { [DEADLINE]: said } = await send({ deadlineMs: 50_000 });
    expect(Number(said)).toBeGreaterThan(0);
    expect(Number(said)).toBeLessThanOrEqual(50_000);
  });

  it('have the name that is configured, or are not sent', async () => {
    const named = await send({ deadlineMs: 50_000, propagate: { deadlineHeader: 'X-Timeout' } });
    expect(Number(named['x-timeout'])).toBeLessThanOrEqual(50_000);
    expect(named).not.toHaveProperty(DEADLINE);
    expect(await send({ deadlineMs: 50_000, propagate: { deadlineHeader: false } })).not.toHaveProperty(DEADLINE);
  });

  it("never say more time than the caller's own header", async () => {
    const { [DEADLINE]: shorter } = await send({ deadlineMs: 50_000 }, { [DEADLINE]: '40' });
    expect(shorter).toBe('40');
    const { [DEADLINE]: longer } = await send({ deadlineMs: 50_000 }, { 'X-Envoy-Expected-Rq-Timeout-Ms': '600000' });
    expect(Number(longer)).toBeLessThanOrEqual(50_000);
  });

  it('say what is left of the request being served, and its priority', async () => {
    const inherited = await send({ propagate: { context: context(30_000, 'critical') } });
    expect(Number(inherited[DEADLINE])).toBeLessThanOrEqual(30_000);
    expect(inherited[PRIORITY]).toBe('critical');
    const own = await send({
      deadlineMs: 20_000,
      priority: () => 'sheddable',
      propagate: { context: context(30_000, 'critical') },
    });
    expect(Number(own[DEADLINE])).toBeLessThanOrEqual(20_000);
    expect(own[PRIORITY]).toBe('sheddable');
    const less = await send({ deadlineMs: 600_000, propagate: { context: context(30_000) } });
    expect(Number(less[DEADLINE])).toBeLessThanOrEqual(30_000);
    expect(await send({ propagate: { context: { current: () => undefined } } })).not.toHaveProperty(DEADLINE);
    expect(await send({ propagate: { context: context(Number.NaN) } })).not.toHaveProperty(DEADLINE);
  });

  it('say a priority that is not the default, unless the caller sets the header', async () => {
    expect(await send({ priority: () => 'default' })).not.toHaveProperty(PRIORITY);
    expect(await send({ priority: () => 'critical' })).toHaveProperty(PRIORITY, 'critical');
    expect(await send({ priority: () => 'critical' }, { [PRIORITY]: 'own' })).toHaveProperty(PRIORITY, 'own');
    expect(await send({ priority: () => 'critical', propagate: { priorityHeader: false } })).not.toHaveProperty(
      PRIORITY,
    );
  });

  it('are not sent when no time is left: the call fails at once', async () => {
    await expect(send({ resolver: new FakeResolver(), propagate: { context: context(-1) } })).rejects.toMatchObject(
      expect.objectContaining({ message: expect.any(String) }),
    );
  });

  it('are refused with invalid names', async () => {
    for (const propagate of [{ deadlineHeader: 'a b' }, { priorityHeader: '' }, { context: {} }, { other: 1 }]) {
      await expect(send({ propagate })).rejects.toMatchObject({ code: 'EVENKEEL_OPTION' });
    }
  });
});

describe('the deadline header', () => {
  const open = (options: DispatcherOptions) => {
    const dispatcher = createDispatcher(origin, options);
    closing.push(() => dispatcher.destroy());
    return dispatcher;
  };

  it('says what is left when the request is sent, not when the call began', async () => {
    const clock = new FakeClock();
    const resolver = new FakeResolver();
    const dispatcher = open({ clock, resolver, deadlineMs: 1_000 });
    const asked = dispatcher.request({ path: '/', method: 'GET' });
    await clock.advanceAsync(300);
    resolver.update(pod());
    await until('it is answered', async () => {
      await clock.advanceAsync(1);
      return heard[DEADLINE] !== undefined;
    });
    const { body } = await asked;
    await body.dump();
    expect(Number(heard[DEADLINE])).toBeLessThanOrEqual(700);
  });

  it('is not sent to other hosts, nor is a priority', async () => {
    const other = createServer((request, response) => {
      heard = request.headers;
      response.end('ok');
    });
    other.listen(0, '127.0.0.1');
    await once(other, 'listening');
    closing.push(() => other.close());
    const elsewhere = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
    const options = {
      resolver: staticEndpoints([pod()]),
      deadlineMs: 5_000,
      priority: () => 'critical' as const,
      propagate: { context: context(3_000, 'critical') },
    };
    const dispatcher = open(options);
    const { body } = await dispatcher.request({ origin: elsewhere, path: '/', method: 'GET' });
    await body.dump();
    expect(heard).not.toHaveProperty(DEADLINE);
    expect(heard).not.toHaveProperty(PRIORITY);
    const agent = createAgent(origin, options);
    closing.push(() => agent.destroy());
    const [answer] = await once(get(`${elsewhere}/`, { agent, headers: { connection: 'close' } }), 'response');
    answer.resume();
    await once(answer, 'end');
    expect(heard).not.toHaveProperty(DEADLINE);
    expect(heard).not.toHaveProperty(PRIORITY);
  });

  it('leaves the caller’s own headers unchanged', async () => {
    const dispatcher = open({ resolver: staticEndpoints([pod()]), deadlineMs: 5_000, priority: () => 'critical' });
    const headers = Object.freeze({ 'x-mine': '1' });
    const { body } = await dispatcher.request({ path: '/', method: 'GET', headers });
    await body.dump();
    expect(headers).toEqual({ 'x-mine': '1' });
    const list = ['x-mine', '1'];
    await (await dispatcher.request({ path: '/', method: 'GET', headers: list })).body.dump();
    expect(list).toEqual(['x-mine', '1']);
    expect(heard).toMatchObject({ 'x-mine': '1', [PRIORITY]: 'critical' });
  });
});

describe('a gRPC call', () => {
  let calls: { readonly leftMs: number; readonly priority: unknown[] }[] = [];
  let grpcPort = 0;

  beforeEach(async () => {
    calls = [];
    const server = new Server();
    const path = '/shop.v1.Orders/Get';
    const method = bytesMethod(path);
    server.addService(
      { Get: method },
      {
        Get: (call: ServerUnaryCall<Buffer, Buffer>, callback: (error: null, value: Buffer) => void) => {
          calls.push({ leftMs: Number(call.getDeadline()) - Date.now(), priority: call.metadata.get(PRIORITY) });
          callback(null, call.request);
        },
      },
    );
    grpcPort = await new Promise<number>((resolve, reject) => {
      server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound),
      );
    });
    closing.push(() => server.forceShutdown());
  });

  const send = async (options: GrpcOptions, own: { deadline?: Date; metadata?: Metadata } = {}) => {
    const client = new Client(
      serviceTarget('orders.shop:50051'),
      credentials.createInsecure(),
      serviceChannelOptions({ resolver: staticEndpoints([{ address: '127.0.0.1', port: grpcPort }]), ...options }),
    );
    closing.push(() => client.close());
    const { deadline, metadata = new Metadata() } = own;
    await new Promise((resolve, reject) => {
      const callOptions = deadline === undefined ? {} : { deadline };
      client.makeUnaryRequest('/shop.v1.Orders/Get', asIs, asIs, Buffer.from('x'), metadata, callOptions, (error) =>
        error ? reject(error) : resolve(undefined),
      );
    });
    return calls.at(-1);
  };

  it('has no more time than is left of the request being served', async () => {
    const propagate = { context: context(3_000) };
    expect((await send({ propagate }))?.leftMs).toBeLessThanOrEqual(3_000);
    const sooner = await send({ propagate }, { deadline: new Date(Date.now() + 1_000) });
    expect(sooner?.leftMs).toBeLessThanOrEqual(1_000);
    const later = await send({ propagate }, { deadline: new Date(Date.now() + 60_000) });
    expect(later?.leftMs).toBeLessThanOrEqual(3_000);
    expect((await send({}))?.leftMs).toBe(Number.POSITIVE_INFINITY);
  });

  it('inherits the priority of the request being served, unless it has one', async () => {
    const propagate = { context: context(undefined, 'critical') };
    expect((await send({ propagate }))?.priority).toEqual(['critical']);
    const metadata = new Metadata();
    metadata.set(PRIORITY, 'sheddable');
    expect((await send({ propagate }, { metadata }))?.priority).toEqual(['sheddable']);
    expect(metadata.get(PRIORITY)).toEqual(['sheddable']);
    expect((await send({ priority: () => 'critical' }))?.priority).toEqual(['critical']);
    expect((await send({ priority: () => 'default' }))?.priority).toEqual([]);
    expect((await send({ priority: () => 'critical', propagate: { priorityHeader: false } }))?.priority).toEqual([]);
  });
});
