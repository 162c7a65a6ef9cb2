import { once } from 'node:events';
import {
  createServer,
  get,
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import {
  connect as connectHttp2,
  constants,
  createServer as createHttp2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from 'node:http2';
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import axios from 'axios';
import {
  adaptive,
  fixed,
  type ObserverEvents,
  type Outcome,
  type PickerFactory,
  type Priority,
  roundRobin,
  staticEndpoints,
  without,
} from 'evenkeel';
import { createAgent } from 'evenkeel/node-http';
import { type Backend, type BackendOptions, createBackend } from 'evenkeel/server';
import { createDispatcher, createFetch, type DispatcherOptions } from 'evenkeel/undici';
import type { Dispatcher } from 'undici';
import { afterEach, describe, expect, it } from 'vitest';
import { calledAfterEach } from '../../support/opened.js';
import { until } from '../../support/until.js';
import { frameworks, type Work } from './support/frameworks.js';

const DEADLINE = 'x-envoy-expected-rq-timeout-ms';
const PRIORITY = 'x-request-priority';
const NOT_BEGUN = 'evenkeel-not-begun';
const never = Number.POSITIVE_INFINITY;

const closing = calledAfterEach();

/** An application whose requests are answered when the test says so. */
class App {
  /** Requests that have begun, in that order, and how to answer them. */
  readonly begun: { readonly path: string; readonly request: IncomingMessage; answer(): void }[] = [];
  readonly bodies: string[] = [];
  readonly pod: Backend;
  port = 0;

  constructor(options: BackendOptions) {
    this.pod = createBackend(options);
    closing.push(() => this.pod.close());
  }

  readonly work: Work = (request, body) =>
    new Promise((resolve) => {
      this.bodies.push(body);
      const { url = '' } = request;
      this.begun.push({ path: url, request, answer: () => resolve(`done ${url}`) });
    });

  get paths(): string[] {
    return this.begun.map(({ path }) => path);
  }

  url(path: string): string {
    return `http://127.0.0.1:${this.port}${path}`;
  }

  async hasBegun(count: number): Promise<void> {
    await until(`${count} have begun`, () => this.begun.length >= count);
  }

  async isWaiting(count: number): Promise<void> {
    await until(`${count} wait`, () => this.pod.limit?.waiting === count);
  }
}

const start = async (name: string, options: BackendOptions): Promise<App> => {
  const app = new App(options);
  app.port = await (frameworks[name] as (typeof frameworks)[string])(app.pod, app.work, closing);
  return app;
};
const statusOf = async (asked: Promise<Response>): Promise<number> => {
  const answer = await asked;
  await answer.text();
  return answer.status;
};

it('serves others while clients that never read their large responses hold connections', async () => {
  const pod = createBackend({ limit: fixed(2), waitTimeoutMs: 60_000 });
  const server = createServer(
    pod.http((request, response) => void response.end(request.url === '/large' ? Buffer.alloc(20_000_000) : 'ok')),
  );
  const port = await new Promise<number>((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port));
  });
  const readers = Array.from({ length: 2 }, () =>
    connect(port, '127.0.0.1')
      .on('error', () => {})
      .pause(),
  );
  closing.push(() => {
    for (const reader of readers) reader.destroy();
    server.close();
  });
  for (const reader of readers) reader.write('GET /large HTTP/1.1\r\nHost: pod\r\n\r\n');
  await until('both are there', () => pod.inFlight === 2);
  for (let index = 0; index < 5; index++) expect(await statusOf(fetch(`http://127.0.0.1:${port}/`))).toBe(200);
  expect(pod.inFlight).toBe(2);
  for (const reader of readers) reader.destroy();
  await until('nothing runs', () => pod.inFlight === 0);
});

it('serves others while handlers wait for clients that do not read, and lets those go on when the limit has room', async () => {
  const pod = createBackend({ limit: fixed(1, { shedAfterMs: never }), waitTimeoutMs: 60_000 });
  let written = 0;
  let streaming: ServerResponse | undefined;
  let answerHeld = (): void => {};
  const serve = (request: IncomingMessage, response: ServerResponse): void => {
    if (request.url === '/held') answerHeld = () => void response.end('ok');
    else if (request.url !== '/stream') response.end('ok');
    else {
      streaming = response;
      const source = new Readable({
        read() {
          written++;
          this.push(Buffer.alloc(64 * 1024));
        },
      });
      source.pipe(response);
      response.on('close', () => source.destroy());
    }
  };
  const server = createServer(pod.http(serve));
  const port = await new Promise<number>((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port));
  });
  const reader = connect(port, '127.0.0.1')
    .on('error', () => {})
    .pause();
  closing.push(() => {
    reader.destroy();
    server.close();
  });
  reader.write('GET /stream HTTP/1.1\r\nHost: pod\r\n\r\n');
  await until('the stream waits for its reader', () => streaming?.writableNeedDrain === true);
  for (let index = 0; index < 3; index++) expect(await statusOf(fetch(`http://127.0.0.1:${port}/`))).toBe(200);
  const held = statusOf(fetch(`http://127.0.0.1:${port}/held`));
  await until('the limit is used up', () => pod.limit?.running === 1);
  const before = written;
  reader.resume();
  await until('everything is read', () => streaming?.writableNeedDrain === false);
  expect([written, pod.limit?.running]).toEqual([before, 1]);
  answerHeld();
  expect(await held).toBe(200);
  await until('the stream goes on', () => written > before);
});

describe.each(Object.keys(frameworks))('%s', (name) => {
  it('serves as many requests at once as the limit allows, the others in order of arrival', async () => {
    const app = await start(name, { limit: fixed(1, { shedAfterMs: never }) });
    const answers = [statusOf(fetch(app.url('/1')))];
    await app.hasBegun(1);
    answers.push(statusOf(fetch(app.url('/2'), { method: 'POST', body: 'two' })));
    await app.isWaiting(1);
    answers.push(statusOf(fetch(app.url('/3'))));
    await app.isWaiting(2);
    expect(app.paths).toEqual(['/1']);
    for (let at = 0; at < 3; at++) {
      await app.hasBegun(at + 1);
      app.begun[at]?.answer();
    }
    expect(await Promise.all(answers)).toEqual([200, 200, 200]);
    expect(app.paths).toEqual(['/1', '/2', '/3']);
    expect(app.bodies).toEqual(['', 'two', '']);
    await until('nothing runs', () => app.pod.limit?.running === 0 && app.pod.inFlight === 0);
  });

  it('serves others while senders that never finish a body are being served, and counts a body that arrives late', async () => {
    const app = await start(name, { limit: fixed(2, { shedAfterMs: never }), waitTimeoutMs: 60_000 });
    const senders = Array.from({ length: 2 }, () => connect(app.port, '127.0.0.1').on('error', () => {}));
    closing.push(() => {
      for (const sender of senders) sender.destroy();
    });
    for (const sender of senders)
      sender.write('POST /slow HTTP/1.1\r\nHost: pod\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nsl');
    await until('both are there', () => app.pod.inFlight === 2);
    const other = statusOf(fetch(app.url('/other')));
    await app.hasBegun(1);
    // It began with the first place given back; the second sender began moments later than the first.
    await until('neither sender holds a place', () => app.pod.limit?.running === 1);
    expect(app.paths).toEqual(['/other']);
    senders[0]?.write('ow');
    await app.hasBegun(2);
    expect([app.paths, app.pod.limit?.running]).toEqual([['/other', '/slow'], 2]);
    for (const { answer } of app.begun) answer();
    expect(await other).toBe(200);
    senders[1]?.destroy();
    await until('nothing runs', () => app.pod.limit?.running === 0 && app.pod.inFlight === 0);
  });

  it('lets no more handlers run than its limit allows when many bodies that were held back arrive at once', async () => {
    const app = await start(name, { limit: fixed(2, { shedAfterMs: never }), waitTimeoutMs: 60_000 });
    const senders: Socket[] = [];
    closing.push(() => {
      for (const sender of senders) sender.destroy();
    });
    for (let round = 1; round <= 3; round++) {
      for (let index = 0; index < 2; index++) {
        const sender = connect(app.port, '127.0.0.1').on('error', () => {});
        senders.push(sender);
        sender.write('POST /slow HTTP/1.1\r\nHost: pod\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nsl');
      }
      await until('none holds a place', () => app.pod.inFlight === 2 * round && app.pod.limit?.running === 0);
    }
    for (const sender of senders) sender.write('ow');
    for (let begun = 2; begun <= 6; begun += 2) {
      await app.hasBegun(begun);
      expect(app.pod.limit?.running).toBe(2);
      expect(app.begun).toHaveLength(begun);
      for (const { answer } of app.begun.slice(begun - 2)) answer();
    }
    await until('nothing runs', () => app.pod.limit?.running === 0 && app.pod.inFlight === 0);
    expect(app.bodies).toEqual(Array.from({ length: 6 }, () => 'slow'));
  });

  it('refuses requests beyond its limit with 503, Retry-After, and a note that they were not begun', async () => {
    const app = await start(name, { limit: fixed(1), maxWaiting: 0, retryAfterMs: 1_500 });
    const first = statusOf(fetch(app.url('/1')));
    await app.hasBegun(1);
    const refused = await fetch(app.url('/2'), { method: 'POST', body: 'x'.repeat(100_000) });
    expect([refused.status, await refused.text()]).toEqual([503, 'overloaded']);
    expect(refused.headers.get('retry-after')).toBe('2');
    expect(refused.headers.get(NOT_BEGUN)).toMatch(/^[0-9a-f]{16}-\d+$/);
    const byAxios = await axios.post(app.url('/3'), 'x', { validateStatus: null });
    expect([byAxios.status, byAxios.data]).toEqual([503, 'overloaded']);
    app.begun[0]?.answer();
    expect(await first).toBe(200);
    expect(app.paths).toEqual(['/1']);
    await until('nothing runs', () => app.pod.inFlight === 0);
    // And the connection is of use again.
    const again = statusOf(fetch(app.url('/4')));
    await app.hasBegun(2);
    app.begun[1]?.answer();
    expect(await again).toBe(200);
  });

  it('does not begin requests whose callers have gone', async () => {
    const app = await start(name, { limit: fixed(1, { shedAfterMs: never }) });
    const first = statusOf(fetch(app.url('/1')));
    await app.hasBegun(1);
    const giveUp = new AbortController();
    const second = fetch(app.url('/2'), { signal: giveUp.signal }).catch((error: Error) => error.name);
    await app.isWaiting(1);
    giveUp.abort();
    expect(await second).toBe('AbortError');
    await app.isWaiting(0);
    app.begun[0]?.answer();
    expect(await first).toBe(200);
    const third = statusOf(fetch(app.url('/3')));
    await app.hasBegun(2);
    app.begun[1]?.answer();
    expect(await third).toBe(200);
    expect(app.paths).toEqual(['/1', '/3']);
    await until('nothing runs', () => app.pod.limit?.running === 0 && app.pod.inFlight === 0);
  });

  it('does not begin requests whose deadline is too near: 503, and no Retry-After', async () => {
    const app = await start(name, { limit: fixed(1, { shedAfterMs: never }) });
    const first = statusOf(fetch(app.url('/1')));
    await app.hasBegun(1);
    const late = await fetch(app.url('/2'), { headers: { [DEADLINE]: '30' } });
    expect([late.status, await late.text()]).toEqual([503, 'the deadline is over']);
    expect(late.headers.get('retry-after')).toBeNull();
    expect(late.headers.get(NOT_BEGUN)).not.toBeNull();
    expect(await statusOf(fetch(app.url('/3'), { headers: { [DEADLINE]: '0' } }))).toBe(503);
    app.begun[0]?.answer();
    expect(await first).toBe(200);
    expect(app.paths).toEqual(['/1']);
  });

  it('gives a handler a signal that aborts when the caller leaves or at the deadline, and not after the response', async () => {
    const app = await start(name, { deadlineMs: 60_000 });
    const giveUp = new AbortController();
    const asked = fetch(app.url('/1'), { signal: giveUp.signal }).catch(() => {});
    await app.hasBegun(1);
    const signal = app.pod.signal(app.begun[0]?.request as object);
    expect(signal.aborted).toBe(false);
    giveUp.abort();
    await asked;
    await until('it aborts', () => signal.aborted);
    expect(signal.reason).toMatchObject({ name: 'AbortError' });
    const timed = statusOf(fetch(app.url('/2'), { headers: { [DEADLINE]: '40' } }));
    await app.hasBegun(2);
    const atDeadline = app.pod.signal(app.begun[1]?.request as object);
    await until('its time is over', () => atDeadline.aborted);
    expect(atDeadline.reason).toMatchObject({ code: 'EVENKEEL_DEADLINE' });
    app.begun[1]?.answer();
    expect(await timed).toBe(200);
    const answered = statusOf(fetch(app.url('/3')));
    await app.hasBegun(3);
    const quiet = app.pod.signal(app.begun[2]?.request as object);
    app.begun[2]?.answer();
    expect(await answered).toBe(200);
    await until('nothing runs', () => app.pod.inFlight === 0);
    expect(quiet.aborted).toBe(false);
  });

  it('passes deadline and priority of a request on to the calls made for it, also after its body was read', async () => {
    const trust = ({ url }: { readonly url?: string }) => url === '/trusted';
    const app = await start(name, { context: true, trust: trust as NonNullable<BackendOptions['trust']> });
    const seen: { readonly leftMs: number | undefined; readonly priority: Priority | undefined }[] = [];
    const { work } = app;
    Object.assign(app, {
      work: async (request: IncomingMessage, body: string) => {
        await new Promise((resolve) => setImmediate(resolve));
        const { remainingMs: leftMs, priority } = app.pod.context.current() ?? {};
        seen.push({ leftMs, priority });
        void work(request, body);
        return 'ok';
      },
    });
    const port = await (frameworks[name] as (typeof frameworks)[string])(
      app.pod,
      (...all) => app.work(...all),
      closing,
    );
    const ask = (path: string) =>
      statusOf(
        fetch(`http://127.0.0.1:${port}${path}`, {
          method: 'POST',
          body: 'x'.repeat(200_000),
          headers: { [DEADLINE]: '5000', [PRIORITY]: 'critical' },
        }),
      );
    expect(await ask('/trusted')).toBe(200);
    expect(await ask('/stranger')).toBe(200);
    expect(seen.map(({ priority }) => priority)).toEqual(['critical', undefined]);
    for (const { leftMs } of seen) {
      expect(leftMs).toBeGreaterThan(0);
      expect(leftMs).toBeLessThanOrEqual(5_000);
    }
    expect(app.pod.context.current()).toBeUndefined();
  });
});

describe('HTTP/2', () => {
  it('requests wait, are served, and are turned away like any others', async () => {
    const app = new App({ limit: fixed(1, { shedAfterMs: never }), maxWaiting: 1 });
    const server = createHttp2Server(
      app.pod.http((request: Http2ServerRequest, response: Http2ServerResponse) => {
        app.begun.push({ path: request.url, request: request as never, answer: () => response.end('done') });
      }),
    );
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    closing.push(() => server.close());
    const session = connectHttp2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    closing.push(() => session.destroy());
    const ask = (path: string) => {
      const stream = session.request({ ':path': path });
      const answered = once(stream, 'response').then(([answer]) => {
        stream.resume();
        return answer as IncomingHttpHeaders & { readonly ':status': number };
      });
      return { stream, answered };
    };
    const giveUp = ({ stream, answered }: ReturnType<typeof ask>): void => {
      stream.on('error', () => {});
      answered.catch(() => {});
      stream.close(constants.NGHTTP2_CANCEL);
    };
    const first = ask('/1');
    await app.hasBegun(1);
    const second = ask('/2');
    await app.isWaiting(1);
    const refused = await ask('/3').answered;
    expect([refused[':status'], refused['retry-after']]).toEqual([503, '1']);
    expect(refused[NOT_BEGUN]).toMatch(/^[0-9a-f]{16}-\d+$/);
    giveUp(second);
    await app.isWaiting(0);
    const third = ask('/4');
    await app.isWaiting(1);
    const signal = app.pod.signal(app.begun[0]?.request as object);
    giveUp(first);
    await until('its handler is told', () => signal.aborted);
    await app.hasBegun(2);
    app.begun[1]?.answer();
    expect((await third.answered)[':status']).toBe(200);
    expect(app.paths).toEqual(['/1', '/4']);
    await until('nothing runs', () => app.pod.limit?.running === 0 && app.pod.inFlight === 0);
  });
});

describe('priorities', () => {
  it('count only where the caller is trusted, or the application sets them', async () => {
    const app = await start('node:http', {
      limit: fixed(1, { shedAfterMs: never }),
      trust: (request) => 'headers' in request && request.headers['x-caller'] === 'checkout',
      priority: (request) => ('url' in request && request.url === '/export' ? 'sheddable' : undefined),
    });
    const answers = [statusOf(fetch(app.url('/1')))];
    await app.hasBegun(1);
    const ask = async (path: string, headers: Record<string, string>): Promise<void> => {
      const waiting = app.pod.limit?.waiting ?? 0;
      answers.push(statusOf(fetch(app.url(path), { headers })));
      await app.isWaiting(waiting + 1);
    };
    await ask('/export', { [PRIORITY]: 'critical', 'x-caller': 'checkout' });
    await ask('/usual', {});
    await ask('/stranger', { [PRIORITY]: 'critical' });
    await ask('/critical', { [PRIORITY]: 'critical', 'x-caller': 'checkout' });
    for (let at = 0; at < 5; at++) {
      await app.hasBegun(at + 1);
      app.begun[at]?.answer();
    }
    expect(await Promise.all(answers)).toEqual([200, 200, 200, 200, 200]);
    expect(app.paths).toEqual(['/1', '/critical', '/usual', '/stranger', '/export']);
  });

  it('are the default where their function throws', async () => {
    const broken = () => {
      throw new Error('of the application');
    };
    const app = await start('node:http', { limit: fixed(5), trust: broken, priority: broken, unlimited: broken });
    const asked = statusOf(fetch(app.url('/'), { headers: { [PRIORITY]: 'critical' } }));
    await app.hasBegun(1);
    app.begun[0]?.answer();
    expect(await asked).toBe(200);
  });

  it('that are unlimited neither wait nor count', async () => {
    const app = await start('node:http', {
      limit: fixed(1),
      maxWaiting: 0,
      unlimited: (request) => 'url' in request && request.url === '/readyz',
    });
    const first = statusOf(fetch(app.url('/1')));
    await app.hasBegun(1);
    const ready = statusOf(fetch(app.url('/readyz')));
    await app.hasBegun(2);
    expect(app.pod.limit).toMatchObject({ running: 1, waiting: 0 });
    for (const { answer } of app.begun) answer();
    expect(await Promise.all([first, ready])).toEqual([200, 200]);
  });
});

describe('our clients, when a pod refused a request before it began', () => {
  const origin = 'http://orders.shop:8080';
  const outcomes: Outcome[] = [];
  const observer = {
    attemptEnded: ({ outcome }: ObserverEvents['attemptEnded']) => {
      outcomes.push(outcome);
    },
  };
  afterEach(() => {
    outcomes.length = 0;
  });

  /** A pod that is full, and one that is not; both in the Service. */
  async function fullAndFree(): Promise<{ readonly full: App; readonly free: App }> {
    const full = await start('node:http', { limit: fixed(1), maxWaiting: 0 });
    const free = await start('node:http', {});
    void fetch(full.url('/occupied')).catch(() => {});
    await full.hasBegun(1);
    return { full, free };
  }
  const open = (apps: readonly App[], options: DispatcherOptions = {}) => {
    const dispatcher = createDispatcher(origin, {
      resolver: staticEndpoints(apps.map(({ port }) => ({ address: '127.0.0.1', port }))),
      observer,
      ...options,
    });
    closing.push(() => dispatcher.destroy());
    return dispatcher;
  };

  it.each([
    ['a POST', {}],
    ['a POST that may be hedged', { hedge: { afterMs: 3_600_000 }, retry: { methods: ['POST', 'GET'] } }],
  ] satisfies [string, DispatcherOptions][])(
    'undici: %s goes to another pod, and the first is not ejected',
    async (_name, more) => {
      const { full, free } = await fullAndFree();
      const dispatcher = open([full, free], {
        ...more,
        stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
      });
      await until('both are ready', () =>
        dispatcher.balancer.snapshot().endpoints.every(({ state }) => state === 'ready'),
      );
      for (let time = 0; time < 10; time++) {
        const asked = dispatcher.request({ path: `/${time}`, method: 'POST', body: 'an order' });
        await free.hasBegun(time + 1);
        free.begun[time]?.answer();
        const { statusCode, body } = await asked;
        expect([statusCode, await body.text()]).toEqual([200, `done /${time}`]);
      }
      expect(full.paths).toEqual(['/occupied']);
      expect(free.bodies).toEqual(Array(10).fill('an order'));
      const refused = outcomes.filter(({ kind }) => kind !== 'success');
      expect(refused.length).toBeGreaterThan(0);
      for (const outcome of refused) expect(outcome).toMatchObject({ kind: 'not-started', cause: 'overload' });
      expect(dispatcher.balancer.snapshot().endpoints.map(({ failed }) => failed)).toEqual([0, 0]);
    },
  );

  it("undici: a handler that pauses before the response gets the next pod's when it resumes, not a refusal that never ends", async () => {
    const { full, free } = await fullAndFree();
    const dispatcher = open([full, free], {
      stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
      picker: roundRobin(),
    });
    await until('both are ready', () =>
      dispatcher.balancer.snapshot().endpoints.every(({ state }) => state === 'ready'),
    );
    // In turn: one of two begins at the pod that is full.
    for (let time = 0; time < 2; time++) {
      let controller: Dispatcher.DispatchController | undefined;
      let isPaused: boolean | undefined;
      const chunks: Buffer[] = [];
      const ended = new Promise<void>((resolve, reject) => {
        dispatcher.dispatch(
          { path: `/${time}`, method: 'POST', body: 'an order' },
          {
            onRequestStart: (started) => {
              controller = started;
              started.pause();
            },
            onResponseStart: (answering) => {
              isPaused = answering.paused;
              answering.resume();
            },
            onResponseData: (_controller, chunk) => chunks.push(chunk),
            onResponseEnd: () => resolve(),
            onResponseError: (_controller, error) => reject(error),
          },
        );
      });
      await free.hasBegun(time + 1);
      expect(controller?.paused).toBe(true);
      free.begun[time]?.answer();
      await ended;
      expect([isPaused, Buffer.concat(chunks).toString()]).toEqual([true, `done /${time}`]);
    }
    expect(full.paths).toEqual(['/occupied']);
  });

  it.each(['request', 'dispatch in the older form'])(
    'undici: %s moves once more when the next pod cannot be connected to',
    async (form) => {
      const { full, free } = await fullAndFree();
      // One connection, which is busy; a request for another is refused.
      const sockets: Socket[] = [];
      const busy = createTcpServer((socket) => sockets.push(socket)).listen(0, '127.0.0.1');
      await once(busy, 'listening');
      const { port } = busy.address() as AddressInfo;
      closing.push(() => {
        for (const socket of sockets) socket.destroy();
      });
      /** The first one to begin with, while the connection of the second is to become busy; then the one that is full. */
      let first = port;
      const inOrder: PickerFactory = ({ targets }) => ({
        pick: ({ avoid }) => {
          const order = [first, full.port, port, free.port];
          const rank = (target: (typeof targets)[number]) =>
            order.indexOf(target.endpoint.port) + (avoid?.has(target) ? order.length : 0);
          return [...targets].sort((a, b) => rank(a) - rank(b))[0];
        },
      });
      const dispatcher = createDispatcher(origin, {
        resolver: staticEndpoints(
          [full.port, port, free.port].map((number) => ({ address: '127.0.0.1', port: number })),
        ),
        stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
        picker: inOrder,
      });
      closing.push(() => dispatcher.destroy());
      const states = () => dispatcher.balancer.snapshot().endpoints;
      await until('all are ready', () => states().every(({ state }) => state === 'ready'));
      const send = async (path: string) => {
        if (form === 'request') {
          const { statusCode, body } = await dispatcher.request({ path, method: 'POST', body: 'an order' });
          return [statusCode, await body.text()];
        }
        return new Promise((resolve, reject) => {
          let code = 0;
          const chunks: Buffer[] = [];
          dispatcher.dispatch({ path, method: 'POST', body: 'an order' }, {
            onConnect: () => {},
            onHeaders: (status: number) => {
              code = status;
              return true;
            },
            onData: (chunk: Buffer) => {
              chunks.push(chunk);
              return true;
            },
            onComplete: () => resolve([code, Buffer.concat(chunks).toString()]),
            onError: reject,
          } as Dispatcher.DispatchHandler);
        });
      };
      await until('its connection is busy', async () => {
        // A pod that has just become ready may not be picked yet.
        void dispatcher.request({ path: '/', method: 'POST' }).catch(() => {});
        await new Promise((resolve) => setImmediate(resolve));
        return states().some(({ key, inFlight }) => key.endsWith(`:${port}`) && inFlight > 0);
      });
      busy.close();
      first = full.port;
      for (let asked = 0; asked < 6; asked++) {
        const path = `/order-${asked}`;
        const answered = send(path);
        await until('it has begun', () => free.paths.includes(path));
        free.begun.find((request) => request.path === path)?.answer();
        expect(await answered).toEqual([200, `done ${path}`]);
      }
      expect(full.paths).toEqual(['/occupied']);
    },
  );

  it('fetch: a POST without a body goes to another pod, and one that its caller aborts goes nowhere', async () => {
    const { full, free } = await fullAndFree();
    const orders = createFetch(origin, {
      resolver: staticEndpoints([full, free].map(({ port }) => ({ address: '127.0.0.1', port }))),
      stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
      picker: roundRobin(),
    });
    closing.push(() => orders.dispatcher.destroy());
    await until('both are ready', () => orders.balancer.snapshot().endpoints.every(({ state }) => state === 'ready'));
    for (let time = 0; time < 6; time++) {
      const asked = orders(`/${time}`, { method: 'POST' });
      await free.hasBegun(time + 1);
      free.begun[time]?.answer();
      expect(await (await asked).text()).toBe(`done /${time}`);
    }
    expect(full.paths).toEqual(['/occupied']);
    for (let time = 0; time < 40; time++) {
      const giveUp = new AbortController();
      const asked = orders('/given-up', { method: 'POST', signal: giveUp.signal }).then(
        async (answer) => {
          await answer.body?.cancel();
          return answer.status;
        },
        (error: Error) => error.name,
      );
      setTimeout(() => giveUp.abort(), time / 10);
      // The refusal, if the pod that is free has lost its last connection with the request before.
      expect(['AbortError', 503]).toContain(await asked);
    }
    for (const { answer } of free.begun) answer();
    await until('nothing runs', () => orders.balancer.snapshot().endpoints.every(({ inFlight }) => inFlight === 0));
  });

  it('undici: the caller gets the refusal where no other pod can take the request, or its body is consumed', async () => {
    const { full, free } = await fullAndFree();
    const alone = open([full]);
    const { statusCode, headers, body } = await alone.request({ path: '/', method: 'POST', body: 'x' });
    expect([statusCode, await body.text(), headers['retry-after']]).toEqual([503, 'overloaded', '1']);
    const both = open([full, free], {
      stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
      picker: roundRobin(),
    });
    await until('both are ready', () => both.balancer.snapshot().endpoints.every(({ state }) => state === 'ready'));
    const statuses: number[] = [];
    for (let time = 0; time < 2; time++) {
      const before = free.begun.length;
      const sent = both.request({ path: '/', method: 'POST', body: Readable.from(['used up']) });
      void until('the other has it', () => free.begun.length > before).then(
        () => free.begun[before]?.answer(),
        () => {},
      );
      const answer = await sent;
      statuses.push(answer.statusCode);
      await answer.body.dump();
    }
    expect(statuses.sort()).toEqual([200, 503]);
  });

  it('node:http: the caller gets the refusal, and the pod is not blamed', async () => {
    const { full } = await fullAndFree();
    const agent = createAgent(origin, {
      resolver: staticEndpoints([{ address: '127.0.0.1', port: full.port }]),
      observer,
    });
    closing.push(() => agent.destroy());
    const [answer] = await once(get(`${origin}/`, { agent }), 'response');
    answer.resume();
    await once(answer, 'end');
    expect(answer.statusCode).toBe(503);
    await until('the attempt ended', () => outcomes.length === 1);
    expect(outcomes[0]).toMatchObject({ kind: 'not-started', cause: 'overload', retryAfterMs: 1_000 });
  });

  it('do not trust a gateway that passes on the refusal of a server behind it', async () => {
    const { full, free } = await fullAndFree();
    let asked = 0;
    // It has begun the request: it has done its own part before it asks the server behind it.
    const gateway = createServer((request, response) => {
      asked++;
      const passed = httpRequest(full.url(request.url ?? '/'), { method: request.method }, (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(response);
      });
      request.pipe(passed);
    });
    gateway.listen(0, '127.0.0.1');
    await once(gateway, 'listening');
    closing.push(() => {
      gateway.closeAllConnections();
      gateway.close();
    });
    const { port } = gateway.address() as AddressInfo;
    const dispatcher = open([{ port } as App, free]);
    await until('both are ready', () =>
      dispatcher.balancer.snapshot().endpoints.every(({ state }) => state === 'ready'),
    );
    let refused = 0;
    for (let time = 0; time < 20 && refused === 0; time++) {
      const before = free.begun.length;
      const sent = dispatcher.request({ path: `/${time}`, method: 'POST', body: 'an order' });
      await until('one has it', () => asked > 0 || free.begun.length > before);
      free.begun[before]?.answer();
      const { statusCode, body } = await sent;
      await body.dump();
      if (statusCode === 503) refused++;
    }
    expect([asked, refused]).toEqual([1, 1]);
    expect(outcomes).toContainEqual({ kind: 'failure', cause: 'overload', retryAfterMs: 1_000 });
  });

  it('pass a deadline from the first caller to the last server', async () => {
    const last = await start('node:http', { context: true });
    const orders = open([last]);
    const middle = createBackend({ context: true });
    closing.push(() => middle.close());
    const dispatcher = createDispatcher(origin, {
      resolver: staticEndpoints([{ address: '127.0.0.1', port: last.port }]),
      propagate: { context: middle.context },
    });
    closing.push(() => dispatcher.destroy());
    const server = createServer(
      middle.http(async (_request, response) => {
        const failed = await dispatcher.request({ path: '/deep', method: 'GET' }).then(
          () => 'answered',
          (error: { readonly code: string }) => error.code,
        );
        response.end(failed);
      }),
    );
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    closing.push(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    const asked = fetch(`http://127.0.0.1:${port}/`, { headers: { [DEADLINE]: '200' } }).then((answer) =>
      answer.text(),
    );
    await last.hasBegun(1);
    const signal = last.pod.signal(last.begun[0]?.request as object);
    expect(Number(last.begun[0]?.request.headers[DEADLINE])).toBeLessThanOrEqual(200);
    expect(await asked).toBe('EVENKEEL_DEADLINE');
    await until('the last one is told', () => signal.aborted);
    await orders.destroy();
  });
});

describe('an adaptive limit', () => {
  it('counts calls whose callers gave up among those that took too long', async () => {
    const app = await start('node:http', { limit: adaptive({ initial: 4 }) });
    const asked = [1, 2, 3, 4].map((number) => statusOf(fetch(app.url(`/${number}`))));
    await app.hasBegun(4);
    expect(app.pod.limit).toEqual({ max: 4, running: 4, waiting: 0, shed: 0 });
    for (const { answer } of app.begun) answer();
    expect(await Promise.all(asked)).toEqual([200, 200, 200, 200]);
    await until('nothing runs', () => app.pod.limit?.running === 0);
  });
});
