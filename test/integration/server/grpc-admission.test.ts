import { connect } from 'node:http2';
import {
  Client,
  credentials,
  Metadata,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServiceError,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js';
import { fixed, type ObserverEvents, type Outcome, type Priority, staticEndpoints } from 'evenkeel';
import { serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';
import { type Backend, type BackendOptions, createBackend } from 'evenkeel/server';
import { describe, expect, it } from 'vitest';
import { calledAfterEach } from '../../support/opened.js';
import { asIs, bytesMethod } from '../../support/pods/grpc-method.js';
import { until } from '../../support/until.js';

const PRIORITY = 'x-request-priority';
const never = Number.POSITIVE_INFINITY;
const method = bytesMethod('/shop.v1.Orders/Get');

const closing = calledAfterEach();

type Call = ServerUnaryCall<Buffer, Buffer>;

/** A server whose calls are answered when the test says so. */
class Orders {
  readonly pod: Backend;
  readonly begun: { readonly name: string; readonly call: Call; answer(): void }[] = [];
  /** What the context said when each handler began, and after a turn. */
  readonly seen: { readonly leftMs: number | undefined; readonly priority: Priority | undefined }[] = [];
  port = 0;

  constructor(options: BackendOptions) {
    this.pod = createBackend(options);
    closing.push(() => this.pod.close());
  }

  async listen(): Promise<this> {
    const server = new Server({ interceptors: [this.pod.grpc] });
    server.addService(
      { Get: method },
      {
        Get: async (call: Call, callback: sendUnaryData<Buffer>) => {
          this.begun.push({ name: String(call.request), call, answer: () => callback(null, call.request) });
          await new Promise((resolve) => setImmediate(resolve));
          const { remainingMs: leftMs, priority } = this.pod.context.current() ?? {};
          this.seen.push({ leftMs, priority });
        },
      },
    );
    this.port = await new Promise<number>((resolve, reject) => {
      server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
        error ? reject(error) : resolve(bound),
      );
    });
    closing.push(async () => {
      server.forceShutdown();
      await until('no call is in flight', () => this.pod.inFlight === 0);
    });
    return this;
  }

  get names(): string[] {
    return this.begun.map(({ name }) => name);
  }

  async hasBegun(count: number): Promise<void> {
    await until(`${count} have begun`, () => this.begun.length >= count);
  }

  async isWaiting(count: number): Promise<void> {
    await until(`${count} wait`, () => this.pod.limit?.waiting === count);
  }
}

const serve = (options: BackendOptions): Promise<Orders> => new Orders(options).listen();

function stock(port: number): Client {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  closing.push(() => client.close());
  return client;
}

/** One call: its answer, or its status. */
function ask(
  client: Client,
  name: string,
  { deadlineMs, priority }: { readonly deadlineMs?: number; readonly priority?: Priority } = {},
): { readonly ended: Promise<string | ServiceError>; cancel(): void } {
  const metadata = new Metadata();
  if (priority !== undefined) metadata.set(PRIORITY, priority);
  let cancel = (): void => {};
  const ended = new Promise<string | ServiceError>((resolve) => {
    const options = deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs };
    const call = client.makeUnaryRequest(
      method.path,
      asIs,
      asIs,
      Buffer.from(name),
      metadata,
      options,
      (error, value) => resolve(error ?? String(value)),
    );
    cancel = () => call.cancel();
  });
  return { ended, cancel };
}

describe('a grpc-js server with a limit', () => {
  it('begins as many calls as it allows, by the priority that trusted callers send, and none whose caller has gone', async () => {
    const orders = await serve({
      limit: fixed(1, { shedAfterMs: never }),
      trust: (request) => 'metadata' in request && request.path === method.path && request.getPeer() !== '',
    });
    const client = stock(orders.port);
    const first = ask(client, 'first');
    await orders.hasBegun(1);
    const second = ask(client, 'second');
    await orders.isWaiting(1);
    const gone = ask(client, 'gone');
    await orders.isWaiting(2);
    const critical = ask(client, 'critical', { priority: 'critical' });
    await orders.isWaiting(3);
    gone.cancel();
    expect(await gone.ended).toMatchObject({ code: status.CANCELLED });
    await orders.isWaiting(2);
    for (let at = 0; at < 3; at++) {
      await orders.hasBegun(at + 1);
      orders.begun[at]?.answer();
    }
    expect(await Promise.all([first, second, critical].map(({ ended }) => ended))).toEqual([
      'first',
      'second',
      'critical',
    ]);
    expect(orders.names).toEqual(['first', 'critical', 'second']);
    await until('nothing runs', () => orders.pod.limit?.running === 0 && orders.pod.inFlight === 0);
  });

  it('turns calls away with RESOURCE_EXHAUSTED, and says when to come back', async () => {
    const orders = await serve({ limit: fixed(1), maxWaiting: 0, retryAfterMs: 250 });
    const client = stock(orders.port);
    const first = ask(client, 'first');
    await orders.hasBegun(1);
    const refused = (await ask(client, 'second').ended) as ServiceError;
    expect([refused.code, refused.details]).toEqual([status.RESOURCE_EXHAUSTED, 'overloaded']);
    expect(refused.metadata.get('grpc-retry-pushback-ms')).toEqual(['250']);
    expect(refused.metadata.get('evenkeel-not-begun')).toEqual([expect.stringMatching(/^[0-9a-f]{16}-\d+$/)]);
    orders.begun[0]?.answer();
    expect(await first.ended).toBe('first');
    expect(orders.names).toEqual(['first']);
  });

  it('does not begin calls whose deadline is too near', async () => {
    const orders = await serve({ limit: fixed(1, { shedAfterMs: never }) });
    const client = stock(orders.port);
    const first = ask(client, 'first');
    await orders.hasBegun(1);
    expect(await ask(client, 'late', { deadlineMs: 60 }).ended).toMatchObject({ code: status.DEADLINE_EXCEEDED });
    await orders.isWaiting(0);
    orders.begun[0]?.answer();
    expect(await first.ended).toBe('first');
    await until('nothing runs', () => orders.pod.inFlight === 0);
    expect(orders.names).toEqual(['first']);
  });

  it('is not ejected by our client for turning calls away', async () => {
    const orders = await serve({ limit: fixed(1), maxWaiting: 0 });
    const outcomes: Outcome[] = [];
    const client = new Client(
      serviceTarget('orders.shop:50051'),
      credentials.createInsecure(),
      serviceChannelOptions({
        resolver: staticEndpoints([{ address: '127.0.0.1', port: orders.port }]),
        observer: { attemptEnded: ({ outcome }: ObserverEvents['attemptEnded']) => void outcomes.push(outcome) },
      }),
    );
    closing.push(() => client.close());
    const first = ask(client, 'first');
    await orders.hasBegun(1);
    expect(await ask(client, 'second').ended).toMatchObject({ code: status.RESOURCE_EXHAUSTED });
    await until('the attempt ended', () => outcomes.length === 1);
    expect(outcomes).toEqual([{ kind: 'not-started', cause: 'overload', retryAfterMs: 1_000 }]);
    orders.begun[0]?.answer();
    expect(await first.ended).toBe('first');
  });
});

describe('a handler of grpc-js', () => {
  it('has a signal that aborts when the caller leaves or at the deadline, and not after the answer', async () => {
    const orders = await serve({});
    const client = stock(orders.port);
    const signalOf = (at: number): AbortSignal => orders.pod.signal(orders.begun[at]?.call as object);
    const left = ask(client, 'left');
    await orders.hasBegun(1);
    const signal = signalOf(0);
    left.cancel();
    await until('it aborts', () => signal.aborted);
    expect(signal.reason).toMatchObject({ name: 'AbortError' });
    const timed = ask(client, 'timed', { deadlineMs: 300 });
    await orders.hasBegun(2);
    const atDeadline = signalOf(1);
    expect(await timed.ended).toMatchObject({ code: status.DEADLINE_EXCEEDED });
    await until('it aborts', () => atDeadline.aborted);
    const answered = ask(client, 'answered');
    await orders.hasBegun(3);
    const quiet = signalOf(2);
    orders.begun[2]?.answer();
    expect(await answered.ended).toBe('answered');
    await until('nothing runs', () => orders.pod.inFlight === 0);
    expect(quiet.aborted).toBe(false);
    expect(() => orders.pod.signal({ metadata: new Metadata() })).toThrow(/a call that this pod serves/);
    expect(() => orders.pod.signal({})).toThrow(/a request that this pod serves/);
  });

  it('has a context with deadline and priority', async () => {
    const orders = await serve({ context: true, trust: () => true });
    const client = stock(orders.port);
    const asked = ask(client, 'one', { deadlineMs: 60_000, priority: 'sheddable' });
    await until('it was looked at', () => orders.seen.length === 1);
    orders.begun[0]?.answer();
    expect(await asked.ended).toBe('one');
    const [{ leftMs, priority } = {}] = orders.seen;
    expect(priority).toBe('sheddable');
    expect(leftMs).toBeGreaterThan(0);
    expect(leftMs).toBeLessThanOrEqual(60_000);
  });
});

it('serves others while a caller that never sends its message is being served', async () => {
  const orders = await serve({ limit: fixed(1, { shedAfterMs: never }), waitTimeoutMs: 60_000 });
  const session = connect(`http://127.0.0.1:${orders.port}`);
  closing.push(() => session.destroy());
  const headers = {
    ':method': 'POST',
    ':path': '/shop.v1.Orders/Get',
    'content-type': 'application/grpc',
    te: 'trailers',
  };
  const silent = session.request(headers).on('error', () => {});
  await until('it is there', () => orders.pod.inFlight === 1);
  const other = ask(stock(orders.port), 'other');
  await orders.hasBegun(1);
  expect([orders.names, orders.pod.limit?.running]).toEqual([['other'], 1]);
  // Its message: no compression, 4 bytes.
  silent.end(Buffer.from([0, 0, 0, 0, 4, ...Buffer.from('late')]));
  orders.begun[0]?.answer();
  expect(await other.ended).toBe('other');
  await orders.hasBegun(2);
  expect([orders.names, orders.pod.limit?.running]).toEqual([['other', 'late'], 1]);
  orders.begun[1]?.answer();
  await until('nothing runs', () => orders.pod.limit?.running === 0);
});
