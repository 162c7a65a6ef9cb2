import { AsyncLocalStorage } from 'node:async_hooks';
import { type ClientRequest, get } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import axios from 'axios';
import { fits, type ObserverEvents, type PickerFactory, staticEndpoints } from 'evenkeel';
import { type AgentOptions, createAgent, type HttpServiceAgent } from 'evenkeel/node-http';
import got from 'got';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { connected } from '../../support/connected.js';
import { type Pod, Pods } from '../../support/pods.js';
import { until } from '../../support/until.js';
import { codeOf, Opened, running, send } from './support/request.js';

const origin = 'http://orders.shop:8080';
const retry = { statuses: [503], budget: { ratio: 1, minPerSecond: 1_000 } };
const statuses: AgentOptions = { retry };
const well = {
  status: 200,
  headers: {},
  hang: false,
  reset: false,
  resetReused: false,
  connection: 'keep-alive',
} as const;

const order = (port: number): number => pods.all.findIndex((pod) => pod.port === port);
/** Takes the first pod each time, unless the request was there. */
const stubborn: PickerFactory = (set) => ({
  pick: (request) => {
    const [first, second] = set.subchannels.toSorted((a, b) => order(a.endpoint.port) - order(b.endpoint.port));
    return first !== undefined && fits(first, request) ? first : (second ?? first);
  },
});

let pods: Pods;
/** The one that is in trouble, and the one that works. */
let ill: Pod;
let sound: Pod;
const opened = new Opened();
let ended: ObserverEvents['attemptEnded'][];

beforeAll(async () => {
  pods = await Pods.start(2);
  [ill, sound] = pods.all as [Pod, Pod];
});
afterAll(() => pods[Symbol.asyncDispose]());
beforeEach(() => {
  ended = [];
});
afterEach(async () => {
  await opened.destroyAll();
  await until('every connection of the pods is closed', async () => (await pods.total('open')) === 0);
  await Promise.all(pods.all.map((pod) => pod.behave(well)));
});

const open = async (options: AgentOptions, endpoints = pods.endpoints): Promise<HttpServiceAgent> => {
  const observer = { attemptEnded: (event: ObserverEvents['attemptEnded']) => void ended.push(event) };
  const resolver = staticEndpoints(endpoints);
  const agent = opened.add(createAgent(origin, { resolver, observer, picker: stubborn, stages: [], ...options }));
  await connected(agent.balancer, endpoints.length);
  return agent;
};
const times = async <T>(count: number, work: (index: number) => Promise<T>): Promise<T[]> => {
  const results: T[] = [];
  for (let index = 0; index < count; index++) results.push(await work(index));
  return results;
};
/** Takes several turns of the event loop. */
async function* slowly(): AsyncGenerator<string> {
  for (let turn = 0; turn < 10; turn++) {
    yield 'x';
    await new Promise((resolve) => setImmediate(resolve));
  }
}
const retried = (): unknown[] => ended.filter(({ retrying }) => retrying).map(({ outcome }) => outcome.cause);
const closed = (outgoing: ClientRequest): Promise<void> =>
  new Promise((resolve) => {
    outgoing.once('close', () => resolve());
  });

describe('statuses', () => {
  it('sends a request again that is safe to repeat, with its body, over connections that are kept', async () => {
    await ill.behave({ status: 503 });
    const agent = await open(statuses);
    const before = await pods.total('connections');
    for (const method of ['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS']) {
      const answers = await times(6, () =>
        send(agent, `${origin}/x`, method === 'PUT' ? { method, body: 'ä' } : { method }),
      );
      expect([method, answers.map(({ status }) => status)]).toEqual([method, [200, 200, 200, 200, 200, 200]]);
      if (method === 'PUT') expect(answers.map(({ body }) => JSON.parse(body).length)).toEqual([2, 2, 2, 2, 2, 2]);
    }
    expect(retried()).toEqual(Array(30).fill('status'));
    expect(running(agent)).toBe(0);
    // No response was cut: one connection each, and perhaps one opened while it was not known whether pods keep them.
    expect((await pods.total('connections')) - before).toBeLessThan(8);
  });

  it('leaves alone what must not be sent twice, or is still being written', async () => {
    await ill.behave({ status: 503 });
    const agent = await open(statuses);
    const post = await times(4, () => send(agent, `${origin}/x`, { method: 'POST', body: 'x' }));
    const stream = await times(4, () =>
      send(agent, `${origin}/x`, { method: 'PUT', body: Readable.from(slowly(), { objectMode: false }) }),
    );
    const expecting = await times(2, () =>
      send(agent, `${origin}/x`, { method: 'PUT', body: 'x', headers: { expect: '100-continue' } }),
    );
    for (const answers of [post, stream, expecting]) {
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([503]));
    }
    expect(retried()).toEqual([]);
  });

  it('a response too long to read is cut; the last one goes to the caller', async () => {
    await ill.behave({ status: 503 });
    const agent = await open({ retry: { ...retry, maxAttempts: 2 } });
    const long = await times(4, () => send(agent, `${origin}/bytes/300000`));
    expect(long.map(({ status, body }) => [status, body.length])).toEqual(Array(4).fill([200, 300_000]));
    await sound.behave({ status: 503 });
    expect((await send(agent, `${origin}/bytes/300000`)).body.length).toBe(300_000);
    expect((await send(agent, `${origin}/x`)).status).toBe(503);
  });

  it('what `when` says about a response decides', async () => {
    await ill.behave({ status: 500, headers: { 'X-Reason': 'warming up' } });
    const seen: unknown[] = [];
    const agent = await open({
      retry: {
        when: ({ status, header, usual }) => {
          seen.push([status, header('x-reason'), usual]);
          return header('x-reason') === 'warming up';
        },
      },
    });
    expect((await times(4, () => send(agent, `${origin}/x`))).map(({ status }) => status)).toEqual([
      200, 200, 200, 200,
    ]);
    expect(seen).toEqual(Array(4).fill([500, 'warming up', false]));
  });
});

describe('lost connections', () => {
  it('a request whose connection died is sent again', async () => {
    await ill.behave({ reset: true });
    const agent = await open(statuses);
    expect((await times(8, () => send(agent, `${origin}/x`))).map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect(retried()).toContain('reset');
    await sound.behave({ reset: true });
    expect(await codeOf(send(agent, `${origin}/x`))).toBe('ECONNRESET');
    expect(running(agent)).toBe(0);
  });

  it('a response that broke off is the caller’s', async () => {
    const agent = await open(statuses);
    const broken = send(agent, `${origin}/reset-body`);
    expect(await codeOf(broken)).toBe('ECONNRESET');
    await until('the lease ended', () => ended.length === 1);
    expect(ended[0]).toMatchObject({ outcome: { cause: 'reset' }, retrying: false });
  });

  it.each([
    ['closes', 'all', ['data', 'end', 'close', 'socket end']],
    ['closes', 'half', ['data', 'socket end', 'aborted', 'close']],
    ['resets', 'all', ['data', 'end', 'close']],
    ['resets', 'half', ['data', 'error', 'aborted', 'close']],
  ])(
    'a pod that %s as soon as %s of a response has arrived: its caller gets that, as from Node’s own Agent',
    async (how, part, expected) => {
      let connection: Socket | undefined;
      const server = createServer((socket) => {
        connection = socket;
        const bytes = part === 'all' ? 2 : 4;
        socket
          .on('error', () => {})
          .once('data', () => socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${bytes}\r\n\r\nok`));
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const { port } = server.address() as AddressInfo;
      const agent = await open(statuses, [{ address: '127.0.0.1', port }]);
      const events: string[] = [];
      const note = (event: string) => () => void events.push(event);
      const outgoing = get(`${origin}/x`, { agent }, (response) => {
        response
          .on('data', note('data'))
          .on('end', note('end'))
          .on('aborted', note('aborted'))
          .on('error', () => {});
      });
      outgoing.on('error', note('error')).on('close', note('close'));
      outgoing.on('socket', (socket) => {
        socket.once('data', () => (how === 'closes' ? connection?.end() : connection?.resetAndDestroy()));
        socket.on('end', note('socket end'));
      });
      await closed(outgoing);
      await new Promise((resolve) => setTimeout(resolve, 50));
      server.close();
      expect(events).toEqual(expected);
    },
  );
});

describe('hedging', () => {
  it('the first response wins, the other connection is closed', async () => {
    await ill.behave({ hang: true });
    const agent = await open({ hedge: { afterMs: 30 } });
    const answers = await times(4, () => send(agent, `${origin}/x`));
    expect(answers.map(({ headers }) => headers['x-pod'])).toEqual(Array(4).fill('pod-1'));
    await until('the slow pod has seen its callers go', async () => (await ill.stats()).aborted >= 4);
    await until('nothing runs', () => running(agent) === 0);
    const { hedges, hedgesWon } = agent.balancer.snapshot().counts;
    expect([hedges, hedgesWon]).toEqual([4, 4]);
  });
});

describe('the request stays what it is', () => {
  it('its events have their context, its socket is used again, its bytes arrive', async () => {
    const agent = await open(statuses);
    const storage = new AsyncLocalStorage<string>();
    const seen: unknown[][] = [];
    const once = (id: string): Promise<unknown> =>
      storage.run(
        id,
        () =>
          new Promise((resolve, reject) => {
            const outgoing = get(`${origin}/bytes/200000`, { agent }, (response) => {
              seen.push(['response', storage.getStore()]);
              text(response).then((body) => {
                seen.push(['end', storage.getStore(), body.length, outgoing.reusedSocket]);
                resolve(undefined);
              }, reject);
            });
            outgoing.on('socket', () => seen.push(['socket', storage.getStore()]));
            outgoing.on('finish', () => seen.push(['finish', storage.getStore()]));
            outgoing.on('error', reject);
          }),
      );
    await times(3, (index) => once(`request ${index}`));
    expect(seen.filter(([, store]) => store === 'request 2')).toEqual([
      ['socket', 'request 2'],
      ['finish', 'request 2'],
      ['response', 'request 2'],
      ['end', 'request 2', 200_000, true],
    ]);
  });

  it('early hints, trailers, streams and statuses without a body', async () => {
    const agent = await open(statuses);
    const hints = await new Promise((resolve) => {
      get(`${origin}/hints`, { agent }, (response) => void response.resume()).on('information', resolve);
    });
    expect(hints).toMatchObject({ statusCode: 103 });
    const [lines, trailers] = await new Promise<[string, unknown]>((resolve) => {
      get(`${origin}/drip/3/5`, { agent }, async (response) => {
        resolve([await text(response), response.trailers]);
      });
    });
    expect([lines, trailers]).toEqual(['1\n2\n3\n', { 'x-lines': '3' }]);
    expect((await send(agent, `${origin}/status/204`)).status).toBe(204);
    expect((await send(agent, `${origin}/status/304`)).status).toBe(304);
    await until('nothing runs', () => running(agent) === 0);
  });

  it.each([
    ['destroy()', (outgoing: ClientRequest) => void outgoing.destroy(), 'ECONNRESET'],
    ['abort()', (outgoing: ClientRequest) => outgoing.abort(), 'ECONNRESET'],
    ['an error', (outgoing: ClientRequest) => void outgoing.destroy(Object.assign(new Error('x'), { code: 'X' })), 'X'],
  ])('%s before the response ends it, and its connection', async (_how, giveUp, code) => {
    await Promise.all(pods.all.map((pod) => pod.behave({ hang: true })));
    const agent = await open({ retry, hedge: { afterMs: 20 } });
    const before = await pods.total('requests');
    const outgoing = get(`${origin}/x`, { agent });
    const error = new Promise((resolve) => {
      outgoing.once('error', ({ code: got }: NodeJS.ErrnoException) => resolve(got));
    });
    await until('both pods have it', async () => (await pods.total('requests')) === before + 2);
    const over = closed(outgoing);
    giveUp(outgoing);
    expect(await error).toBe(code);
    await over;
    expect(running(agent)).toBe(0);
    expect(ended.map(({ outcome }) => outcome.kind)).toEqual(['cancelled', 'cancelled']);
    await until('its connections are closed', async () => (await pods.total('aborted')) >= 2);
  });

  it('its timeout and its signal hold while it has no response', async () => {
    await Promise.all(pods.all.map((pod) => pod.behave({ hang: true })));
    const agent = await open(statuses);
    const outgoing = get(`${origin}/x`, { agent, timeout: 50 });
    const failed = new Promise((resolve) => {
      outgoing.once('error', resolve);
    });
    await new Promise((resolve) => {
      outgoing.once('timeout', resolve);
    });
    outgoing.destroy(new Error('mine'));
    expect(await failed).toMatchObject({ message: 'mine' });
    const aborted = new AbortController();
    const signalled = codeOf(send(agent, `${origin}/x`, { signal: aborted.signal }));
    aborted.abort();
    expect(await signalled).toBe('ABORT_ERR');
  });

  it('a deadline covers all attempts, and each attempt says what is left of it', async () => {
    await ill.behave({ status: 503, delayMs: 60 });
    const agent = await open({ ...statuses, deadlineMs: 5_000 });
    const told = (await times(4, () => send(agent, `${origin}/x`))).map(({ body }) =>
      Number(JSON.parse(body).headers['x-envoy-expected-rq-timeout-ms']),
    );
    // The second attempt had to wait for the first.
    expect(told.filter((ms) => ms <= 4_945)).toHaveLength(4);
    await sound.behave({ hang: true });
    await ill.behave({ hang: true });
    const late = await open({ ...statuses, deadlineMs: 80 });
    expect(await codeOf(send(late, `${origin}/x`))).toBe('EVENKEEL_DEADLINE');
    await until('nothing runs', () => running(late) === 0);
  });

  it('what is no HTTP is told by Node’s own parser', async () => {
    const server: Server = createServer((socket: Socket) => {
      socket.on('error', () => {}).once('data', () => socket.end('SSH-2.0-OpenSSH_9.2\r\n'));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const agent = await open(statuses, [{ address: '127.0.0.1', port }]);
    expect(await codeOf(send(agent, `${origin}/x`))).toMatch(/^HPE_/);
    await opened.destroyAll();
    await new Promise((resolve) => server.close(resolve));
  });

  it('axios and got get their answers, redirects and aborts', async () => {
    await ill.behave({ status: 503 });
    const agent = await open(statuses);
    const orders = axios.create({ baseURL: origin, httpAgent: agent, proxy: false });
    expect((await times(4, () => orders.get('/x'))).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect((await times(4, () => orders.delete('/x'))).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const once = axios.create({ baseURL: origin, httpAgent: agent, proxy: false, maxRedirects: 0 });
    expect((await times(4, () => once.put('/x', { a: 1 }))).map(({ data }) => data.length)).toEqual([7, 7, 7, 7]);
    const moved = await orders.get(`/redirect?to=${encodeURIComponent(`${origin}/elsewhere`)}`);
    expect(moved.data.url).toBe('/elsewhere');
    const direct = got.extend({ prefixUrl: origin, agent: { http: agent }, retry: { limit: 0 } });
    expect((await times(4, () => direct('x'))).map(({ statusCode }) => statusCode)).toEqual([200, 200, 200, 200]);
    await Promise.all(pods.all.map((pod) => pod.behave({ hang: true })));
    await expect(orders.get('/x', { timeout: 50 })).rejects.toMatchObject({ code: 'ECONNABORTED' });
    await expect(direct('x', { timeout: { request: 50 } })).rejects.toMatchObject({ code: 'ETIMEDOUT' });
    await until('nothing runs', () => running(agent) === 0);
  });

  it('waits for a pod with room, and closes with its agent', async () => {
    const agent = await open({ ...statuses, connections: 1 });
    await Promise.all(pods.all.map((pod) => pod.behave({ delayMs: 30 })));
    const answers = await Promise.all(Array.from({ length: 8 }, () => send(agent, `${origin}/x`)));
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
    const last = send(agent, `${origin}/x`);
    await until('it runs', () => running(agent) === 1);
    await agent.close();
    expect((await last).status).toBe(200);
    expect(await codeOf(send(agent, `${origin}/x`))).toBe('EVENKEEL_CLOSED');
    // One that is not complete yet when its agent closes.
    const closing = await open(statuses);
    const sent = send(closing, `${origin}/x`);
    await closing.close();
    expect((await sent).status).toBe(200);
  });
});
