import { fileURLToPath } from 'node:url';
import {
  type CallOptions,
  type ChannelCredentials,
  type Client,
  type ClientDuplexStream,
  type ClientOptions,
  type ClientReadableStream,
  type ClientUnaryCall,
  type ClientWritableStream,
  credentials,
  loadPackageDefinition,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { type ChannelBalancer, type GrpcOptions, serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';
import { until } from '../../../support/until.js';

export interface Words {
  readonly text: string;
  readonly pod: string;
  /** Metadata the pod received, as JSON. */
  readonly received: string;
  readonly authority: string;
}

export interface Numbered {
  readonly value: number;
  readonly pod: string;
}

type Callback<T> = (error: ServiceError | null, value?: T) => void;

/** The client proto-loader makes of echo.proto. */
export interface EchoClient extends Client {
  say(words: Partial<Words>, metadata: Metadata, options: CallOptions, callback: Callback<Words>): ClientUnaryCall;
  count(range: { numbers: number; pause_ms?: number }, metadata?: Metadata): ClientReadableStream<Numbered>;
  add(callback: Callback<Numbered>): ClientWritableStream<Partial<Numbered>>;
  chat(): ClientDuplexStream<Partial<Words>, Words>;
  watch(words: Partial<Words>, metadata?: Metadata): ClientReadableStream<Words>;
}

interface EchoConstructor {
  new (address: string, credentials: ChannelCredentials, options?: ClientOptions): EchoClient;
  readonly service: object;
}

const definition = loadPackageDefinition(
  loadSync(fileURLToPath(new URL('echo.proto', import.meta.url)), { keepCase: true, longs: Number, defaults: true }),
) as unknown as { test: { v1: { Echo: EchoConstructor } } };

export const Echo: EchoConstructor = definition.test.v1.Echo;

/** A client of the Service `orders.shop:50051` with what watches its channel. */
export interface Orders {
  readonly client: EchoClient;
  readonly balancer: ChannelBalancer;
}

export function ordersClient(
  options: GrpcOptions = {},
  channelCredentials: ChannelCredentials = credentials.createInsecure(),
  more: ClientOptions = {},
): Orders {
  let balancer: ChannelBalancer | undefined;
  const own = serviceChannelOptions({
    ...options,
    onBalancer: (made) => {
      balancer = made;
    },
  });
  const client = new Echo(serviceTarget('orders.shop:50051'), channelCredentials, { ...own, ...more });
  return { client, balancer: balancer as ChannelBalancer };
}

export interface SayOptions extends CallOptions {
  readonly text?: string;
  readonly metadata?: Metadata;
}

/** How a unary call failed. */
export interface SayError extends ServiceError {
  /** Whether its answer had begun: such a call must not be made again. */
  readonly answered: boolean;
}

/** One unary call. Rejects with a `SayError`. */
export function say(
  client: EchoClient,
  { text = 'hello', metadata = new Metadata(), ...options }: SayOptions = {},
): Promise<Words> {
  return new Promise((resolve, reject) => {
    let answered = false;
    const call = client.say({ text }, metadata, options, (error, words) => {
      if (error === null) resolve(words as Words);
      else reject(Object.assign(error, { answered }));
    });
    call.on('metadata', () => {
      answered = true;
    });
  });
}

/** Waits until a channel is connected to `count` endpoints and no other. */
export async function connected(balancer: ChannelBalancer, count: number): Promise<void> {
  await balancer.ready();
  await until(`connected to ${count} endpoints`, () => {
    const { endpoints } = balancer.snapshot();
    return endpoints.length === count && endpoints.every(({ state }) => state === 'ready');
  });
}

/** What a server stream brings until it ends. */
export async function all<T>(stream: ClientReadableStream<T>): Promise<T[]> {
  const received: T[] = [];
  for await (const item of stream) received.push(item as T);
  return received;
}
