import { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { application, type MariadbWorld, noMariadb, startMariadbs, titled } from '../../support/databases/mariadb.js';
import {
  noPostgres,
  type PostgresWorld,
  titled as onPostgres,
  application as postgres,
  startPostgres,
} from '../../support/databases/postgres.js';
import { until } from '../../support/until.js';
import { type EndedSpan, TracedWorld, Tree } from './support/world.js';

let world: TracedWorld;
let mariadbs: MariadbWorld | undefined;
let databases: PostgresWorld | undefined;
beforeAll(async () => {
  [world, mariadbs, databases] = await Promise.all([
    TracedWorld.start(2),
    noMariadb ? undefined : startMariadbs(2),
    noPostgres ? undefined : startPostgres(0),
  ]);
});
afterEach(async () => {
  await Promise.all(world.pods.map((_, index) => world.behave(index, {})));
});
afterAll(async () => {
  await Promise.all([mariadbs?.close(), databases?.close(), world?.[Symbol.asyncDispose]()]);
});

/** The names from a span up to the first of the trace. */
function ancestors(spans: Tree, of: EndedSpan): string[] {
  const names: string[] = [];
  for (let span: EndedSpan | undefined = of; span !== undefined; span = spans.parent(span)) {
    names.push(span.scope === 'evenkeel' || span.scope === 'application' ? span.name : `${span.scope} ${span.process}`);
  }
  return names;
}
const attempts = (spans: Tree): EndedSpan[] =>
  [...spans.named('evenkeel attempt')].sort(
    (a, b) => Number(a.attributes['evenkeel.attempt']) - Number(b.attributes['evenkeel.attempt']),
  );
const summary = (spans: Tree): string[] =>
  attempts(spans).map(({ attributes: a, status }) =>
    [
      a['evenkeel.attempt'],
      a['evenkeel.reason'],
      a['evenkeel.outcome'],
      status.code === SpanStatusCode.ERROR && 'error',
    ]
      .filter(Boolean)
      .join(' '),
  );
const servers = (spans: Tree): EndedSpan[] => spans.all.filter(({ kind }) => kind === SpanKind.SERVER);

describe('over undici, with its official instrumentation', () => {
  it('the server’s span descends from the attempt, which names its pod', async () => {
    const { spans } = await world.run('undici', world.endpoints('http'), { servers: 1 });
    const [server] = servers(spans) as [EndedSpan];
    expect(ancestors(spans, server)).toEqual([
      `http ${server.process}`,
      'undici client',
      'evenkeel attempt',
      'evenkeel GET',
      'caller 0',
    ]);
    const [attempt] = attempts(spans) as [EndedSpan];
    const pod = world.pods.find(({ name }) => name === server.process);
    expect(attempt).toMatchObject({
      kind: SpanKind.INTERNAL,
      attributes: {
        'evenkeel.target': expect.any(String),
        'server.address': 'orders.shop',
        'server.port': 8080,
        'network.peer.address': '127.0.0.1',
        'network.peer.port': pod?.ports.http,
        'k8s.pod.name': server.process,
        'evenkeel.zone': expect.stringMatching(/^zone-/),
        'evenkeel.attempt': 1,
        'evenkeel.reason': 'first',
        'evenkeel.wait.duration': 0,
        'evenkeel.outcome': 'success',
        'http.response.status_code': 200,
      },
      status: { code: SpanStatusCode.UNSET },
    });
    expect(spans.one('evenkeel GET').attributes).toMatchObject({
      'evenkeel.protocol': 'http',
      'evenkeel.method': 'GET',
      'evenkeel.attempts': 1,
      'evenkeel.outcome': 'success',
      'http.response.status_code': 200,
    });
  });

  it('each of many calls at once has a trace of its own, and no span stays open', async () => {
    const calls = 200;
    const { spans } = await world.run('undici', world.endpoints('http'), { calls, servers: calls });
    expect(new Set(servers(spans).map((span) => ancestors(spans, span).at(-1)))).toHaveProperty('size', calls);
    expect(servers(spans).every((span) => ancestors(spans, span).length === 5)).toBe(true);
  });

  it('a retry is a second attempt of the same call, in its caller’s trace', async () => {
    await world.behave(0, { reset: true });
    // Round robin: of two calls one meets the pod that resets, which has a span, too.
    const { spans, result } = await world.run('undici', world.endpoints('http'), { calls: 2, servers: 3 });
    expect(result).toMatchObject([{ statusCode: 200 }, { statusCode: 200 }]);
    const retried = attempts(spans).find(({ attributes }) => attributes['evenkeel.attempt'] === 2) as EndedSpan;
    expect(retried.attributes).toMatchObject({ 'evenkeel.reason': 'retry', 'k8s.pod.name': 'orders-1' });
    const call = spans.parent(retried) as EndedSpan;
    expect(call.attributes).toMatchObject({ 'evenkeel.attempts': 2, 'evenkeel.outcome': 'success' });
    const [first] = spans.children(call).filter(({ attributes }) => attributes['evenkeel.attempt'] === 1) as [
      EndedSpan,
    ];
    expect(first).toMatchObject({
      attributes: { 'evenkeel.outcome': 'reset', 'error.type': expect.stringMatching(/SOCKET|ECONNRESET/) },
      status: { code: SpanStatusCode.ERROR },
    });
    const [server] = servers(spans).filter(
      (span) =>
        ancestors(spans, span).includes('undici client') && spans.parent(spans.parent(span) as EndedSpan) === retried,
    );
    expect(server?.process).toBe('orders-1');
    expect(spans.parent(call)?.name).toMatch(/^caller/);
  });

  it('a response that is discarded for another shows as an attempt', async () => {
    await world.behave(0, { status: 503 });
    await world.behave(1, { status: 503 });
    const { spans } = await world.run('undici: status', world.endpoints('http'), { servers: 2 });
    expect(summary(spans)).toEqual(['1 first status error', '2 retry status error']);
    expect(attempts(spans)[0]?.attributes).toMatchObject({ 'error.type': '503', 'http.response.status_code': 503 });
    expect(spans.one('evenkeel GET')).toMatchObject({
      attributes: { 'evenkeel.attempts': 2, 'http.response.status_code': 503, 'error.type': '503' },
      status: { code: SpanStatusCode.ERROR },
    });
    expect(new Set(servers(spans).map(({ process }) => process)).size).toBe(2);
  });

  it('a hedge shows as one, and the losing attempt as cancelled', async () => {
    await world.behave(0, { delayMs: 2_000 });
    await world.behave(1, { delayMs: 100 });
    let spans: Tree;
    // Round robin decides which pod is asked first.
    do ({ spans } = await world.run('undici: hedge', world.endpoints('http')));
    while (summary(spans)[0] !== '1 first cancelled');
    expect(summary(spans)).toEqual(['1 first cancelled', '2 hedge success']);
    const call = spans.one('evenkeel GET');
    expect(call).toMatchObject({ attributes: { 'evenkeel.attempts': 2 }, status: { code: SpanStatusCode.UNSET } });
    expect(attempts(spans).map((span) => spans.parent(span))).toEqual([call, call]);
    expect(spans.parent(call)?.name).toBe('caller');
    // Each attempt has its own span of undici.
    expect(attempts(spans).map((span) => spans.children(span).map(({ scope }) => scope))).toEqual([
      ['undici'],
      ['undici'],
    ]);
  });

  it('a call that waits records it, and keeps its parent', async () => {
    const { spans } = await world.run('undici: wait', world.endpoints('http'), { servers: 1 });
    const [attempt] = attempts(spans) as [EndedSpan];
    expect(attempt.attributes['evenkeel.wait.duration']).toBeGreaterThan(0.02);
    expect(ancestors(spans, (servers(spans) as [EndedSpan])[0]).slice(1)).toEqual([
      'undici client',
      'evenkeel attempt',
      'evenkeel GET',
      'caller',
    ]);
  });

  it('a call that is aborted, fails, or gets no pod, records the reason', async () => {
    await Promise.all([0, 1].map((index) => world.behave(index, { hang: true })));
    const aborted = await world.run('undici: abort', world.endpoints('http'));
    expect(summary(aborted.spans)).toEqual(['1 first cancelled']);
    expect(aborted.spans.one('evenkeel GET')).toMatchObject({
      attributes: { 'evenkeel.outcome': 'cancelled', 'error.type': expect.stringMatching(/Abort|UND_ERR_ABORTED/) },
      status: { code: SpanStatusCode.ERROR },
    });
    await Promise.all([0, 1].map((index) => world.behave(index, { reset: true })));
    const failed = await world.run('undici: fails', world.endpoints('http'));
    expect(summary(failed.spans)).toEqual(['1 first reset error']);
    expect(failed.spans.one('evenkeel POST')).toMatchObject({
      attributes: { 'evenkeel.outcome': 'reset', 'evenkeel.attempts': 1 },
      status: { code: SpanStatusCode.ERROR, message: expect.any(String) },
    });
    const refused = await world.run('undici: closed', world.endpoints('http'));
    expect(refused.spans.one('evenkeel GET')).toMatchObject({
      attributes: { 'evenkeel.attempts': 0, 'error.type': 'EVENKEEL_NOT_READY', 'evenkeel.outcome': 'not-started' },
      status: { code: SpanStatusCode.ERROR },
    });
  });
});

describe('over node:http, with its official instrumentation', () => {
  it('the call is a child of the client’s span, and its attempt names the pod', async () => {
    const { spans } = await world.run('node:http', world.endpoints('http'), { calls: 5, servers: 5 });
    for (const attempt of attempts(spans)) {
      expect(ancestors(spans, attempt)).toEqual([
        'evenkeel attempt',
        'evenkeel GET',
        'http client',
        expect.stringMatching(/^caller/),
      ]);
      const client = spans.parent(spans.parent(attempt) as EndedSpan) as EndedSpan;
      const [server] = spans.children(client).filter(({ kind }) => kind === SpanKind.SERVER) as [EndedSpan];
      expect(attempt.attributes).toMatchObject({ 'k8s.pod.name': server.process, 'http.response.status_code': 200 });
    }
    expect(attempts(spans)).toHaveLength(5);
  });
});

describe('over gRPC, with its official instrumentation', () => {
  it('the server’s span is a child of the attempt', async () => {
    const { spans } = await world.run('grpc', world.endpoints('grpc'), { calls: 20, servers: 20 });
    expect(servers(spans)).toHaveLength(20);
    for (const server of servers(spans)) {
      expect(ancestors(spans, server)).toEqual([
        `grpc ${server.process}`,
        'evenkeel attempt',
        'evenkeel /test.Orders/Get',
        'grpc client',
        expect.stringMatching(/^caller/),
      ]);
      expect(spans.parent(server)?.attributes).toMatchObject({
        'k8s.pod.name': server.process,
        'server.address': 'orders.shop',
        'server.port': 50051,
        'rpc.response.status_code': 'OK',
      });
    }
  });

  it('a retry of grpc-js is a second attempt, and each server’s span is a child of its own attempt', async () => {
    await world.behave(0, { code: 14 });
    await world.behave(1, { code: 14 });
    await expect(world.run('grpc: retry', world.endpoints('grpc'))).rejects.toThrow('UNAVAILABLE');
    await world.behave(1, {});
    let spans: Tree;
    do ({ spans } = await world.run('grpc: retry', world.endpoints('grpc')));
    while (attempts(spans).length < 2);
    await until(
      'both servers have told',
      () => world.spans.filter(({ kind }) => kind === SpanKind.SERVER).length === 2,
    );
    spans = new Tree([...world.spans]);
    expect(summary(spans)).toEqual(['1 first status error', '2 retry success']);
    expect(attempts(spans)[0]?.attributes).toMatchObject({
      'rpc.response.status_code': 'UNAVAILABLE',
      'error.type': 'UNAVAILABLE',
    });
    expect(attempts(spans).map((span) => spans.children(span).map(({ process }) => process))).toEqual([
      ['orders-0'],
      ['orders-1'],
    ]);
  });

  it('a call that is cancelled, and one that streams, end their spans', async () => {
    await Promise.all([0, 1].map((index) => world.behave(index, { hang: true })));
    const cancelled = await world.run('grpc: cancelled', world.endpoints('grpc'));
    expect(summary(cancelled.spans)).toEqual(['1 first cancelled']);
    expect(cancelled.spans.one('evenkeel /test.Orders/Get')).toMatchObject({
      attributes: {
        'evenkeel.outcome': 'cancelled',
        'error.type': 'CANCELLED',
        'rpc.response.status_code': 'CANCELLED',
      },
    });
    await Promise.all([0, 1].map((index) => world.behave(index, {})));
    const stream = await world.run('grpc: stream', world.endpoints('grpc'), { servers: 1 });
    expect(stream.result).toHaveLength(3);
    expect(summary(stream.spans)).toEqual(['1 first success']);
  });
});

describe.skipIf(noMariadb)(titled('over MySQL, with its official instrumentation'), () => {
  it.each([true, false])(
    'a statement’s span is a child of its attempt, over connections opened before: %s',
    async (warm) => {
      const pods = (mariadbs?.endpoints ?? []).map((endpoint, index) => ({ ...endpoint, name: `mysql-${index}` }));
      const calls = 12;
      const { spans, result } = await world.run('mysql', pods, { calls, warm, login: application });
      expect(result).toEqual(
        Array.from({ length: calls }, (_, index) => String(index)).map((n) => expect.toSatisfy((v) => String(v) === n)),
      );
      const statements = spans.of('mysql2').filter((span) => ancestors(spans, span).at(-1)?.startsWith('caller'));
      expect(statements).toHaveLength(calls);
      for (const statement of statements) {
        expect(ancestors(spans, statement)).toEqual([
          'mysql2 client',
          'evenkeel attempt',
          'evenkeel query',
          expect.stringMatching(/^caller/),
        ]);
        expect(spans.parent(statement)?.attributes['k8s.pod.name']).toMatch(/^mysql-/);
      }
      // A checkout is a call of its own, which is over when its caller has the connection.
      const [checkout] = spans.children(spans.one('checks out')) as [EndedSpan];
      expect(checkout).toMatchObject({ name: 'evenkeel getConnection', attributes: { 'evenkeel.outcome': 'success' } });
      const wrong = spans.all.find(
        (span) => span.name === 'evenkeel query' && span.attributes['error.type'] !== undefined,
      );
      expect(wrong).toMatchObject({
        attributes: { 'error.type': 'ER_NO_SUCH_TABLE', 'evenkeel.outcome': 'success' },
        status: { code: SpanStatusCode.ERROR },
      });
    },
  );
});

describe.skipIf(noPostgres)(onPostgres('over PostgreSQL, with its official instrumentation'), () => {
  it('a statement’s span is a child of its attempt', async () => {
    const calls = 12;
    const { spans, result } = await world.run('pg', databases?.endpoints ?? [], { calls, login: postgres });
    expect(result).toEqual(Array.from({ length: calls }, (_, index) => index));
    const statements = spans
      .of('pg')
      .filter((span) => ancestors(spans, span).at(-1)?.startsWith('caller') && span.name.startsWith('pg.query'));
    expect(statements).toHaveLength(calls);
    for (const statement of statements) {
      expect(ancestors(spans, statement)).toEqual([
        'pg client',
        'evenkeel attempt',
        'evenkeel query',
        expect.stringMatching(/^caller/),
      ]);
    }
    const [checkout] = spans.children(spans.one('checks out')) as [EndedSpan];
    expect(checkout).toMatchObject({ name: 'evenkeel connect', attributes: { 'evenkeel.outcome': 'success' } });
    const wrong = spans.all.find(
      (span) => span.name === 'evenkeel query' && span.attributes['error.type'] !== undefined,
    );
    expect(wrong?.attributes).toMatchObject({ 'error.type': '42P01', 'evenkeel.protocol': 'postgresql' });
  });
});

describe('a long-lived connection', () => {
  it('is a call until it is open', async () => {
    const { spans, result } = await world.run('tcp', world.endpoints('http'));
    expect(result).toEqual({ open: 0 });
    expect(ancestors(spans, spans.one('evenkeel attempt'))).toEqual(['evenkeel attempt', 'evenkeel connect', 'caller']);
    expect(spans.one('evenkeel connect').attributes).toMatchObject({
      'server.address': 'broker.shop',
      'server.port': 5672,
      'evenkeel.outcome': 'success',
    });
  });
});

describe('without other instrumentations', () => {
  it('the server’s span is a child of the attempt, which is a client span', async () => {
    await using alone = await world.withClient({
      INSTRUMENTATIONS: 'none',
      TRACES: JSON.stringify({ attemptKind: 'client' }),
    });
    const { spans } = await alone.run('undici', alone.endpoints('http'), { calls: 3, servers: 3 });
    expect(servers(spans).map((span) => ancestors(spans, span).slice(1))).toEqual(
      ['caller 0', 'caller 1', 'caller 2'].map(() => [
        'evenkeel attempt',
        'evenkeel GET',
        expect.stringMatching(/^caller/),
      ]),
    );
    expect(attempts(spans).every(({ kind }) => kind === SpanKind.CLIENT)).toBe(true);
  });
});

describe('the official instrumentations alone', () => {
  let alone: TracedWorld;
  beforeAll(async () => {
    alone = await world.withClient({ TRACES: 'off' });
  });
  afterAll(async () => {
    await alone?.[Symbol.asyncDispose]();
  });

  it('undici: a retry and a hedge have their caller as parent', async () => {
    await alone.behave(0, { reset: true });
    const retried = await alone.run('undici', alone.endpoints('http'), { calls: 2, servers: 3 });
    await alone.behave(0, { delayMs: 300 });
    const hedged = await alone.run('undici: hedge', alone.endpoints('http'));
    for (const { spans } of [retried, hedged]) {
      const parents = spans.of('undici').map((span) => spans.parent(span)?.name);
      expect(parents.length).toBeGreaterThan(0);
      expect(parents.every((name) => name?.startsWith('caller'))).toBe(true);
    }
    expect(retried.spans.of('undici')).toHaveLength(3);
  });

  it.skipIf(noMariadb)(titled('mysql2: each statement has its caller as parent'), async () => {
    const { spans } = await alone.run('mysql', mariadbs?.endpoints ?? [], { calls: 12, login: application });
    const parents = spans.of('mysql2').map((span) => spans.parent(span)?.name);
    expect(parents.filter((name) => name?.startsWith('caller'))).toHaveLength(12);
    expect(parents).not.toContain(undefined);
  });

  it.skipIf(noPostgres)(onPostgres('pg: each statement has its caller as parent'), async () => {
    const { spans } = await alone.run('pg', databases?.endpoints ?? [], { calls: 12, login: postgres });
    const parents = spans
      .of('pg')
      .filter(({ name }) => name.startsWith('pg.query'))
      .map((span) => spans.parent(span)?.name);
    expect(parents.filter((name) => name?.startsWith('caller'))).toHaveLength(12);
    expect(parents).not.toContain(undefined);
  });
});
