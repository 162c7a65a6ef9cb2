import { Agent, type ClientRequest, get, type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type ObserverEvents, staticEndpoints } from 'evenkeel';
import { type AgentOptions, createAgent, type HttpServiceAgent } from 'evenkeel/node-http';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { collect } from '../../support/allocation.js';
import { connected } from '../../support/fixtures/connected.js';
import { Pod } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { Opened, running, send } from './support/request.js';

const origin = 'http://orders.shop:8080';

let pod: Pod;
const opened = new Opened();
/** Every attempt that ended, in order: how. */
let ended: ObserverEvents['attemptEnded'][];

beforeEach(async () => {
  pod = await Pod.start();
  ended = [];
});
afterEach(async () => {
  await opened.destroyAll();
  await until('every connection of the pod is closed', async () => (await pod.stats()).open === 0);
  await pod[Symbol.asyncDispose]();
});

const open = async (
  options: AgentOptions = {},
  endpoint: { readonly address: string; readonly port: number } = pod.endpoint,
): Promise<HttpServiceAgent> => {
  const resolver = staticEndpoints([endpoint]);
  const observer = { attemptEnded: (event: ObserverEvents['attemptEnded']) => void ended.push(event) };
  const agent = opened.add(createAgent(origin, { resolver, observer, ...options }));
  await connected(agent.balancer, 1);
  return agent;
};
const outcomesOf = (): unknown[] => ended.map(({ outcome }) => outcome);
const closed = (outgoing: ClientRequest): Promise<void> =>
  new Promise((resolve) => {
    outgoing.once('close', () => resolve());
  });
const responded = (outgoing: ClientRequest): Promise<IncomingMessage> =>
  new Promise((resolve) => {
    outgoing.once('response', resolve);
  });

/** A server of a few bytes: answers whatever comes with `answer`, then does `then`. */
const rawServer = async (
  answer: string,
  then: (socket: Socket) => void = () => {},
): Promise<{ server: Server; endpoint: { address: string; port: number } }> => {
  const server = createServer((socket) => {
    socket
      .on('error', () => {})
      .once('data', () => {
        socket.write(answer);
        then(socket);
      });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  return { server, endpoint: { address: '127.0.0.1', port } };
};

describe('what a response means for its pod', () => {
  it.each([
    ['/status/200', { kind: 'success' }],
    ['/status/404', { kind: 'success' }],
    ['/status/500', { kind: 'failure', cause: 'status' }],
    ['/status/429', { kind: 'failure', cause: 'overload' }],
    ['/hints', { kind: 'success' }],
  ])('%s: %j', async (path, outcome) => {
    const agent = await open();
    await send(agent, `${origin}${path}`);
    await until('the lease ended', () => ended.length === 1);
    expect(outcomesOf()).toEqual([outcome]);
    expect(ended[0]).toMatchObject({ attempt: 1, retrying: false });
    expect(running(agent)).toBe(0);
  });

  it('includes Retry-After and a load report', async () => {
    await pod.behave({ headers: { 'retry-after': '7', 'endpoint-load-metrics': 'TEXT cpu_utilization=0.5' } });
    const agent = await open();
    await send(agent, `${origin}/status/503`);
    await until('the lease ended', () => ended.length === 1);
    expect(outcomesOf()).toEqual([
      { kind: 'failure', cause: 'overload', retryAfterMs: 7_000, report: { cpuUtilization: 0.5 } },
    ]);
  });

  it.each([
    ['a reset before the answer', '/reset', 'ECONNRESET'],
    ['a reset in the middle of the body', '/reset-body', 'ECONNRESET'],
  ])('%s is a reset', async (_what, path, code) => {
    const agent = await open();
    await expect(send(agent, `${origin}${path}`)).rejects.toMatchObject({ code });
    await until('the lease ended', () => ended.length === 1);
    expect(outcomesOf()).toEqual([{ kind: 'failure', cause: 'reset' }]);
    expect(running(agent)).toBe(0);
  });

  it.each([
    ['an end before the answer', '', { kind: 'failure', cause: 'reset' }],
    [
      'an end in the middle of the body',
      'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf',
      { kind: 'failure', cause: 'reset' },
    ],
    ['what is no HTTP', 'SSH-2.0-OpenSSH\r\n', { kind: 'failure', cause: 'protocol' }],
    ['a head that never ends', `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(40_000)}`, { kind: 'failure', cause: 'protocol' }],
  ])('%s counts against the pod', async (_what, answer, outcome) => {
    const { server, endpoint } = await rawServer(answer, (socket) => socket.end());
    const agent = await open({}, endpoint);
    await expect(send(agent, `${origin}/`)).rejects.toThrow();
    await until('the lease ended', () => ended.length === 1);
    expect(outcomesOf()).toEqual([outcome]);
    expect(running(agent)).toBe(0);
    await opened.destroyAll();
    await new Promise((resolve) => server.close(resolve));
  });

  it('a response of unknown length that ends with the connection is complete', async () => {
    const { server, endpoint } = await rawServer('HTTP/1.1 200 OK\r\n\r\nall there is', (socket) => socket.end());
    const agent = await open({}, endpoint);
    expect((await send(agent, `${origin}/`)).body).toBe('all there is');
    await until('the lease ended', () => ended.length === 1);
    expect(outcomesOf()).toEqual([{ kind: 'success' }]);
    await opened.destroyAll();
    await new Promise((resolve) => server.close(resolve));
  });
});

describe('a server that responds twice', () => {
  const answer = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';

  it('does not keep the request in memory', async () => {
    const { server, endpoint } = await rawServer(answer + answer);
    const agent = await open({}, endpoint);
    // In a function of its own: nothing here refers to the request.
    const kept = await (async () => {
      const outgoing = get(`${origin}/`, { agent });
      await closed(outgoing);
      return new WeakRef(outgoing);
    })();
    // A WeakRef holds its target until the end of the turn.
    await until(
      'the request is forgotten',
      async () => {
        await new Promise((resolve) => setImmediate(resolve));
        collect();
        return kept.deref() === undefined;
      },
      5_000,
    );
    await opened.destroyAll();
    await new Promise((resolve) => server.close(resolve));
  });
});

describe('a header that Node refuses', () => {
  it.each([[['orders.shop', 'carts.shop']], [42]])('Host: %j is refused as by Node', async (host) => {
    const agent = await open();
    const headers = { host } as unknown as OutgoingHttpHeaders;
    const told = (used: Agent): unknown => {
      try {
        get(`${origin}/`, { agent: used, headers });
        return undefined;
      } catch (error) {
        const { name, code, message } = error as NodeJS.ErrnoException;
        return { name, code, message: message.replace(/ Received.*/, '') };
      }
    };
    const byNode = told(new Agent());
    expect(byNode).toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
    expect(told(agent)).toEqual(byNode);
    expect(running(agent)).toBe(0);
    expect((await pod.stats()).requests).toBe(0);
  });
});

describe('a caller who gives up', () => {
  const giveUp: [string, (outgoing: ClientRequest, caller: AbortController) => void][] = [
    ['by destroy()', (outgoing) => outgoing.destroy()],
    ['by destroy(error)', (outgoing) => outgoing.destroy(new Error('enough'))],
    ['by abort()', (outgoing) => outgoing.abort()],
    ['by his signal', (_outgoing, caller) => caller.abort()],
  ];

  it.each(giveUp)('%s before the response is not held against the pod', async (_how, act) => {
    const agent = await open();
    const caller = new AbortController();
    const outgoing = get(`${origin}/hang`, { agent, signal: caller.signal }).on('error', () => {});
    const end = closed(outgoing);
    await until('the pod has the request', async () => (await pod.stats()).requests === 1);
    act(outgoing, caller);
    await end;
    expect(outcomesOf()).toEqual([{ kind: 'cancelled' }]);
    expect(running(agent)).toBe(0);
    await until('the pod saw him go', async () => (await pod.stats()).aborted === 1);
  });

  it.each([
    ...giveUp,
    ['by destroying the answer', (outgoing: ClientRequest) => void responseOf(outgoing)?.destroy()] as const,
  ])('%s in the middle of the body is not held against the pod', async (_how, act) => {
    const agent = await open();
    const caller = new AbortController();
    const outgoing = get(`${origin}/hang-body`, { agent, signal: caller.signal }).on('error', () => {});
    const end = closed(outgoing);
    const response = await responded(outgoing);
    response.on('error', () => {}).resume();
    act(outgoing, caller);
    await end;
    expect(outcomesOf()).toEqual([{ kind: 'cancelled' }]);
    expect(running(agent)).toBe(0);
  });

  it('after more than stalledAfterMs without a byte counts as a timeout of the pod', async () => {
    const agent = await open({ stalledAfterMs: 20 });
    const outgoing = get(`${origin}/hang`, { agent }).on('error', () => {});
    outgoing.setTimeout(100, () => outgoing.destroy());
    await closed(outgoing);
    expect(agent.balancer.snapshot().endpoints[0]).toMatchObject({ failed: 1 });
  });

  it('before the request started reaches no pod', async () => {
    const agent = await open();
    const outgoing = get(`${origin}/`, { agent, signal: AbortSignal.abort() });
    const error = new Promise((resolve) => outgoing.once('error', resolve));
    await closed(outgoing);
    expect(await error).toMatchObject({ name: 'AbortError' });
    expect((await pod.stats()).requests).toBe(0);
    expect(running(agent)).toBe(0);
  });

  it('in the turn in which the request started reaches no pod', async () => {
    const agent = await open();
    const outgoing = get(`${origin}/`, { agent });
    const error = new Promise((resolve) => outgoing.once('error', resolve));
    outgoing.destroy();
    await closed(outgoing);
    expect(await error).toMatchObject({ code: 'ECONNRESET', message: 'socket hang up' });
    expect(running(agent)).toBe(0);
  });
});

describe('a response that nobody reads', () => {
  it('is discarded if nobody listens for it, as by Node', async () => {
    const agent = await open();
    await closed(get(`${origin}/bytes/300000`, { agent }));
    expect(outcomesOf()).toEqual([{ kind: 'success' }]);
    expect(running(agent)).toBe(0);
    expect(await send(agent, `${origin}/`)).toMatchObject({ reused: true });
  });

  it('stays a call on its pod until it is read or destroyed', async () => {
    const agent = await open();
    const outgoing = get(`${origin}/bytes/10`, { agent });
    const response = await responded(outgoing);
    expect(running(agent)).toBe(1);
    const end = closed(outgoing);
    response.resume();
    await end;
    expect(running(agent)).toBe(0);
  });
});

describe('errors that a caller does not handle', () => {
  it('are uncaught, as by Node', async () => {
    const agent = await open();
    const others = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    try {
      const uncaught = new Promise((resolve) => process.once('uncaughtException', resolve));
      get(`${origin}/reset`, { agent });
      expect(await uncaught).toMatchObject({ code: 'ECONNRESET' });
    } finally {
      for (const listener of others) process.on('uncaughtException', listener);
    }
  });
});

describe('upgrades', () => {
  const upgrade = (agent: Agent): Promise<Duplex> =>
    new Promise((resolve, reject) => {
      get(`${origin}/`, { agent, headers: { connection: 'upgrade', upgrade: 'echo' } })
        .on('upgrade', (_response, socket) => resolve(socket))
        .on('error', reject);
    });

  it('count as a call on the pod until the connection closes', async () => {
    const agent = await open();
    const socket = await upgrade(agent);
    expect(running(agent)).toBe(1);
    expect(ended).toEqual([]);
    const end = new Promise((resolve) => socket.once('close', resolve));
    socket.end();
    socket.resume();
    await end;
    expect(running(agent)).toBe(0);
    expect(outcomesOf()).toEqual([{ kind: 'success' }]);
  });

  it('whose connection is destroyed at once end as well', async () => {
    const agent = await open();
    get(`${origin}/`, { agent, headers: { connection: 'upgrade', upgrade: 'echo' } }).on('upgrade', (_r, socket) =>
      socket.destroy(),
    );
    await until('the lease ended', () => ended.length === 1);
    expect(running(agent)).toBe(0);
  });

  it('that nobody listens for are closed by Node', async () => {
    const agent = await open();
    const outgoing = get(`${origin}/`, { agent, headers: { connection: 'upgrade', upgrade: 'echo' } });
    outgoing.on('error', () => {});
    await closed(outgoing);
    expect(running(agent)).toBe(0);
    await until('the connection is closed', async () => (await pod.stats()).open === 0);
  });

  it('by CONNECT behave the same', async () => {
    const agent = await open();
    const outgoing = request({ agent, host: 'orders.shop', port: 8080, method: 'CONNECT', path: 'db.shop:5432' });
    const socket = await new Promise<Duplex>((resolve) => {
      outgoing.once('connect', (_response, tunnel) => resolve(tunnel)).end();
    });
    expect(running(agent)).toBe(1);
    socket.destroy();
    await until('the lease ended', () => ended.length === 1);
    expect(running(agent)).toBe(0);
  });

  it('are cut by destroy, and waited for by close', async () => {
    const agent = await open();
    const socket = await upgrade(agent);
    let isClosed = false;
    const closing = agent.close().then(() => {
      isClosed = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(isClosed).toBe(false);
    socket.on('error', () => {});
    agent.destroy();
    await closing;
    expect(socket.destroyed).toBe(true);
  });
});

describe('closing', () => {
  it('lets running requests finish, and refuses new ones', async () => {
    await pod.behave({ delayMs: 200 });
    const agent = await open();
    const answer = send(agent, `${origin}/`);
    await until('the pod has it', async () => (await pod.stats()).requests === 1);
    const closing = agent.close();
    await expect(send(agent, `${origin}/`)).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
    expect((await answer).status).toBe(200);
    await closing;
  });

  it('lets a request finish whose connection is still being opened', async () => {
    const agent = await open();
    await pod.behave({ delayMs: 100 });
    const answers = [send(agent, `${origin}/a`), send(agent, `${origin}/b`)];
    const closing = agent.close();
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200]);
    await closing;
  });

  it('destroy cuts running requests, fails them cleanly, and cannot be undone', async () => {
    const agent = await open();
    const answer = send(agent, `${origin}/hang`);
    await until('the pod has it', async () => (await pod.stats()).requests === 1);
    agent.destroy();
    await expect(answer).rejects.toMatchObject({ code: 'ECONNRESET' });
    expect(outcomesOf()).toEqual([{ kind: 'cancelled' }]);
    await expect(send(agent, `${origin}/`)).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
    await expect(send(agent, `http://127.0.0.1:${pod.port}/`)).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
    agent.destroy();
    await agent.close();
  });
});

describe('the properties of Node’s Agents', () => {
  it('list sockets by pod, and those of other hosts', async () => {
    const agent = await open();
    await send(agent, `${origin}/`);
    const name = `127.0.0.1:${pod.port}`;
    expect(Object.keys(agent.freeSockets)).toEqual([name]);
    const hanging = get(`${origin}/hang`, { agent }).on('error', () => {});
    await until('it is busy', () => (agent.sockets[name]?.length ?? 0) === 1);
    await send(agent, `http://localhost:${pod.port}/`);
    expect(Object.keys(agent.freeSockets)).toEqual([`localhost:${pod.port}:`]);
    hanging.destroy();
  });
});

/** The answer of a request, as far as it has one. */
function responseOf(outgoing: ClientRequest): IncomingMessage | undefined {
  return (outgoing as { res?: IncomingMessage }).res;
}

describe('a response head whose lines end in LF alone', () => {
  it.each([
    [false, /^HPE_/],
    [true, /^200 ok$/],
  ])(
    'with insecureHTTPParser: %s, callers get what they get from Node’s own Agent',
    async (insecureHTTPParser, expected) => {
      const { server, endpoint } = await rawServer('HTTP/1.1 200 OK\nContent-Length: 2\n\nok', (socket) =>
        socket.end(),
      );
      const result = (agent: Agent, url: string): Promise<unknown> =>
        send(agent, url, { insecureHTTPParser, timeout: 120_000 }).then(
          ({ status, body }) => `${status} ${body}`,
          ({ code }) => code,
        );
      const stock = await result(new Agent(), `http://127.0.0.1:${endpoint.port}/`);
      expect(stock).toMatch(expected);
      const agent = await open({}, endpoint);
      expect(await result(agent, `${origin}/`)).toBe(stock);
      await new Promise((resolve) => server.close(resolve));
    },
  );
});
