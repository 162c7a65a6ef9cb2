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

export interface Words {
  readonly text: string;
  readonly pod: string;
  readonly received: string;
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

type EchoConstructor = new (address: string, credentials: ChannelCredentials, options?: ClientOptions) => EchoClient;

const definition = loadPackageDefinition(
  loadSync(fileURLToPath(new URL('echo.proto', import.meta.url)), { keepCase: true, longs: Number, defaults: true }),
) as unknown as { test: { v1: { Echo: EchoConstructor } } };

export const Echo: EchoConstructor = definition.test.v1.Echo;

export function echoClient(
  target: string,
  options: ClientOptions,
  channelCredentials: ChannelCredentials = credentials.createInsecure(),
): EchoClient {
  return new Echo(target, channelCredentials, options);
}

export interface SayOptions extends CallOptions {
  readonly text?: string;
  readonly metadata?: Metadata;
}

/** One unary call. */
export function say(
  client: EchoClient,
  { text = 'hello', metadata = new Metadata(), ...options }: SayOptions = {},
): Promise<Words> {
  return new Promise((resolve, reject) => {
    client.say({ text }, metadata, options, (error, words) => {
      if (error === null) resolve(words as Words);
      else reject(error);
    });
  });
}

/** What a server stream brings until it ends. */
export async function all<T>(stream: ClientReadableStream<T>): Promise<T[]> {
  const received: T[] = [];
  for await (const item of stream) received.push(item as T);
  return received;
}

/** How many of `names` there are of each, most first. */
export function tally(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

/** The largest count against the mean over `pods` pods. */
export function maxToMean(names: readonly string[], pods: number): number {
  const counts = [...tally(names).values()];
  return Math.max(...counts) / (names.length / pods);
}
