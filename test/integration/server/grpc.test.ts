import {
  Client,
  credentials,
  Metadata,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServerWritableStream,
  type ServiceDefinition,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js';
import { staticEndpoints } from 'evenkeel';
import { serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';
import { type Backend, createBackend } from 'evenkeel/server';
import { describe, expect, it } from 'vitest';
import { decodeLoadReport } from '../../../src/adapter/grpc-js/server-reports.js';
import { calledAfterEach } from '../../support/opened.js';
import { asIs, bytesMethod } from '../../support/pods/grpc-method.js';
import { until } from '../../support/until.js';

const ASK = 'endpoint-load-metrics-format';
const TRAILER = 'endpoint-load-metrics-bin';
const service = {
  echo: bytesMethod('/shop.Echo/Echo'),
  list: bytesMethod('/shop.Echo/List', true),
} satisfies ServiceDefinition;

type Unary = (call: ServerUnaryCall<Buffer, Buffer>, callback: sendUnaryData<Buffer>) => void;
type Streaming = (call: ServerWritableStream<Buffer, Buffer>) => void;

const closing = calledAfterEach();

async function serve(
  echo: Unary = (call, callback) => callback(null, call.request),
  list: Streaming = (call) => {
    call.write(call.request);
    call.write(call.request);
    call.end();
  },
): Promise<{ readonly pod: Backend; readonly port: number; readonly metadata: Metadata[]; readonly server: Server }> {
  const pod = createBackend();
  const metadata: Metadata[] = [];
  const server = new Server({ interceptors: [pod.grpc] });
  server.addService(service, {
    echo: (call: ServerUnaryCall<Buffer, Buffer>, callback: sendUnaryData<Buffer>) => {
      metadata.push(call.metadata);
      echo(call, callback);
    },
    list,
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  closing.push(() => pod.close());
  closing.push(async () => {
    server.forceShutdown();
    await until('no call is in flight', () => pod.inFlight === 0);
  });
  return { pod, port, metadata, server };
}

function stock(port: number): Client {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  closing.push(() => client.close());
  return client;
}

interface Answer {
  readonly code: status;
  readonly body: string | undefined;
  readonly trailers: Metadata;
}

/** A unary call, however it ends. */
function call(client: Client, options: { readonly ask?: string; readonly deadlineMs?: number } = {}): Promise<Answer> {
  const { ask, deadlineMs } = options;
  const metadata = new Metadata();
  if (ask !== undefined) metadata.set(ASK, ask);
  return new Promise((resolve) => {
    let body: string | undefined;
    const { path } = service.echo;
    const deadline = deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs };
    client
      .makeUnaryRequest(path, asIs, asIs, Buffer.from('hello'), metadata, deadline, (_error, value) => {
        body = value?.toString();
      })
      .on('status', ({ code, metadata: trailers }) => setImmediate(() => resolve({ code, body, trailers })));
  });
}

const reportIn = ({ trailers }: Answer): unknown => {
  const [report] = trailers.get(TRAILER);
  return report === undefined ? undefined : decodeLoadReport(report as Buffer);
};

describe('reports of a grpc-js server', () => {
  it('are in the trailers of calls that ask for them, for any client', async () => {
    const { port, pod } = await serve();
    const client = stock(port);
    const asked = await call(client, { ask: 'BIN' });
    expect(asked).toMatchObject({ code: status.OK, body: 'hello' });
    expect(reportIn(asked)).toMatchObject({ namedMetrics: { evenkeel_in_flight: 1 } });
    expect(reportIn(await call(client))).toBeUndefined();
    await until('none runs', () => pod.inFlight === 0);
  });

  it("are in the status of calls that fail, beside the application's trailers", async () => {
    const trailers = new Metadata();
    trailers.set('x-own', 'kept');
    const { port } = await serve((_call, callback) =>
      callback({ code: status.NOT_FOUND, details: 'none', metadata: trailers }),
    );
    const answer = await call(stock(port), { ask: 'BIN' });
    expect(answer.code).toBe(status.NOT_FOUND);
    expect(answer.trailers.get('x-own')).toEqual(['kept']);
    expect(reportIn(answer)).toMatchObject({ namedMetrics: { evenkeel_in_flight: 1 } });
    expect(trailers.get(TRAILER)).toEqual([]);
  });

  it('count all running calls, including streams', async () => {
    const streams: ServerWritableStream<Buffer, Buffer>[] = [];
    const { port, pod } = await serve(undefined, (stream) => {
      streams.push(stream);
      stream.write(stream.request);
    });
    const client = stock(port);
    const stream = client.makeServerStreamRequest(service.list.path, asIs, asIs, Buffer.from('x'));
    stream.on('error', () => {}).resume();
    await until('the stream runs', () => streams.length === 1);
    expect(reportIn(await call(client, { ask: 'BIN' }))).toMatchObject({ namedMetrics: { evenkeel_in_flight: 2 } });
    stream.cancel();
    await until('none runs', () => pod.inFlight === 0);
  });

  it('no longer count a call that was cancelled, is past its deadline or was cut with its connection', async () => {
    const { port, pod } = await serve(() => {});
    const client = stock(port);
    expect((await call(client, { deadlineMs: 100, ask: 'BIN' })).code).toBe(status.DEADLINE_EXCEEDED);
    await until('it is over', () => pod.inFlight === 0);
    const hanging = call(client);
    await until('it runs', () => pod.inFlight === 1);
    client.close();
    const cut = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
    const cancelled = cut.makeUnaryRequest(service.echo.path, asIs, asIs, Buffer.from('x'), () => {});
    await until('both run', () => pod.inFlight === 2);
    cancelled.cancel();
    await until('one is over', () => pod.inFlight === 1);
    cut.close();
    void hanging;
  });

  it("are requested by our clients, and the caller's metadata does not change", async () => {
    const { port, metadata } = await serve();
    const heard: unknown[] = [];
    const own = new Metadata();
    const options = serviceChannelOptions({
      resolver: staticEndpoints([{ address: '127.0.0.1', port }]),
      observer: { attemptEnded: ({ outcome }) => heard.push(outcome) },
      askForReports: 'always',
    });
    const client = new Client(serviceTarget('echo.shop:50051'), credentials.createInsecure(), options);
    closing.push(() => client.close());
    await new Promise<void>((resolve, reject) => {
      client.makeUnaryRequest(service.echo.path, asIs, asIs, Buffer.from('hello'), own, (error) =>
        error ? reject(error) : resolve(),
      );
    });
    expect(own.get(ASK)).toEqual([]);
    expect(metadata[0]?.get(ASK)).toEqual(['BIN']);
    await until('the attempt ended', () => heard.length === 1);
    expect(heard[0]).toMatchObject({ kind: 'success', report: { namedMetrics: { evenkeel_in_flight: 1 } } });
  });

  it('are not requested with askForReports: false, nor if the caller requests one itself', async () => {
    const { port, metadata } = await serve();
    const resolver = staticEndpoints([{ address: '127.0.0.1', port }]);
    for (const [askForReports, ask] of [
      [false, undefined],
      ['always', 'TEXT'],
    ] as const) {
      const client = new Client(
        serviceTarget('echo.shop:50051'),
        credentials.createInsecure(),
        serviceChannelOptions({ resolver, askForReports }),
      );
      closing.push(() => client.close());
      expect((await call(client, ask === undefined ? {} : { ask })).code).toBe(status.OK);
    }
    expect(metadata.map((sent) => sent.get(ASK))).toEqual([[], ['TEXT']]);
  });
});
