import type { EventEmitter } from 'node:events';
import { checkTlsOptions, serviceTls } from '../kit/index.js';
import type { OpenClient, ServerClient } from './connection.js';
import { type IoredisCommand, type IoredisPipeline, streamOf } from './internals.js';
import type { ReplicasSettings } from './options.js';

/** The part of an ioredis client that evenkeel uses. */
export interface Ioredis extends EventEmitter {
  readonly options: Record<string, unknown>;
  sendCommand(command: IoredisCommand, stream?: unknown): Promise<unknown>;
  connect(): Promise<void>;
  disconnect(reconnect?: boolean): void;
  duplicate(override: object): Ioredis;
  pipeline(...args: unknown[]): IoredisPipeline;
  multi(...args: unknown[]): IoredisPipeline | Promise<unknown>;
  quit(...args: unknown[]): Promise<unknown>;
  info(section: string): Promise<string>;
}

/** Makes clients by `duplicate` of the primary's client, so that replicas are reached with the application's options. */
export function openIoredis(
  client: unknown,
  { service }: ReplicasSettings,
  replicaOptions: { tls?: unknown },
): OpenClient {
  const primary = client as Ioredis;
  return (endpoint, ended) => {
    const tls = replicaOptions.tls ?? primary.options.tls;
    const replica = endpoint && {
      ...replicaOptions,
      host: endpoint.address,
      port: endpoint.port ?? service.port ?? 6379,
      ...(tls ? { tls: serviceTls(service.host, typeof tls === 'object' ? checkTlsOptions('tls', tls) : {}) } : {}),
      path: undefined,
      sentinels: null,
      Connector: undefined,
    };
    const client = primary.duplicate({
      ...replica,
      db: primary.options.db,
      monitor: false,
      lazyConnect: true,
      // ioredis must not reconnect or resend commands by itself: the balancer connects again, and decides what is sent again.
      retryStrategy: null,
      reconnectOnError: null,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
      enableAutoPipelining: false,
      // A replica that is loading its data is not ready; ioredis queries it again after this time, in ms.
      maxLoadingRetryTime: 500,
    });
    return new IoredisClient(client, ended);
  };
}

class IoredisClient implements ServerClient {
  readonly client: Ioredis;
  #failure: Error | undefined;
  #isClosing = false;

  constructor(client: Ioredis, ended: (error: Error | undefined) => void) {
    this.client = client;
    // Without an error listener, ioredis writes errors to the console.
    client.on('error', (error: Error) => {
      this.#failure ??= error;
    });
    client.once('end', () => ended(this.#isClosing ? undefined : this.#failure));
  }

  connect(): Promise<void> {
    return this.client.connect().catch((error) => {
      throw this.#failure ?? error;
    });
  }

  info(section: string): Promise<string> {
    return this.client.info(section);
  }

  get received(): number {
    return streamOf(this.client)?.bytesRead ?? 0;
  }

  get commandTimeoutMs(): number | undefined {
    const { commandTimeout } = this.client.options;
    return typeof commandTimeout === 'number' && commandTimeout > 0 ? commandTimeout : undefined;
  }

  busy(isBusy: boolean): void {
    streamOf(this.client)?.[isBusy ? 'ref' : 'unref']();
  }

  finish(): void {
    this.#isClosing = true;
    this.client.disconnect();
  }

  cut(): void {
    this.client.disconnect();
    streamOf(this.client)?.destroy();
  }
}
