import type { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { serviceTls } from '../kit/index.js';
import type { OpenClient, ServerClient } from './connection.js';
import type { ReplicasSettings } from './options.js';

/** The part of an ioredis command that evenkeel uses. */
export interface Command {
  readonly name: string;
  readonly promise: Promise<unknown>;
  /** Takes what the server sent, which it decodes and transforms for the caller. */
  resolve: (raw: unknown) => void;
  reject: (error: Error) => void;
  /** For `commandTimeout`. */
  _commandTimeoutTimer?: NodeJS.Timeout | undefined;
  isTraced?: boolean;
  /** ioredis 6: how the server sent it. */
  setReplyContext?(context: unknown): void;
}

/** The part of an ioredis pipeline, or transaction, that evenkeel uses. */
export interface Pipeline {
  redis: unknown;
  readonly _queue: readonly Command[];
  exec(...given: unknown[]): Promise<unknown>;
}

/** The part of an ioredis client that evenkeel uses. */
export interface Ioredis extends EventEmitter {
  readonly options: Record<string, unknown>;
  readonly stream?: Socket;
  readonly condition?: { readonly select?: number };
  sendCommand(command: Command, stream?: unknown): Promise<unknown>;
  connect(): Promise<void>;
  disconnect(reconnect?: boolean): void;
  duplicate(override: object): Ioredis;
  pipeline(...given: unknown[]): Pipeline;
  multi(...given: unknown[]): Pipeline | Promise<unknown>;
  quit(...given: unknown[]): Promise<unknown>;
  info(section: string): Promise<string>;
}

/** Whether this is a client of ioredis for one server. A Cluster has replicas of its own: `scaleReads`. */
export function isIoredis(client: unknown): boolean {
  const { duplicate, sendCommand, pipeline, options, isCluster } = Object(client) as Record<string, unknown>;
  const isMethod = (one: unknown): boolean => typeof one === 'function';
  return [duplicate, sendCommand, pipeline].every(isMethod) && !!options && isCluster !== true;
}

/** Makes clients as the primary's client makes duplicates of itself. */
export function openIoredis(given: unknown, { service }: ReplicasSettings, own: { tls?: unknown }): OpenClient {
  const primary = given as Ioredis;
  return (endpoint, ended) => {
    const tls = own.tls ?? primary.options.tls;
    const replica = endpoint && {
      ...own,
      host: endpoint.address,
      port: endpoint.port ?? service.port ?? 6379,
      ...(tls ? { tls: serviceTls(service.host, typeof tls === 'object' ? tls : {}) } : {}),
      path: undefined,
      sentinels: null,
      Connector: undefined,
    };
    const client = primary.duplicate({
      ...replica,
      db: primary.options.db,
      monitor: false,
      lazyConnect: true,
      // The balancer connects again, and decides what is sent again.
      retryStrategy: null,
      reconnectOnError: null,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
      enableAutoPipelining: false,
      // A replica that loads its data is not ready. ioredis asks again after this, in ms.
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
    // Without a listener ioredis writes to the console.
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
    return this.client.stream?.bytesRead ?? 0;
  }

  get commandTimeoutMs(): number | undefined {
    const { commandTimeout } = this.client.options;
    return typeof commandTimeout === 'number' && commandTimeout > 0 ? commandTimeout : undefined;
  }

  busy(isBusy: boolean): void {
    this.client.stream?.[isBusy ? 'ref' : 'unref']();
  }

  finish(): void {
    this.#isClosing = true;
    this.client.disconnect();
  }

  cut(): void {
    this.client.disconnect();
    this.client.stream?.destroy();
  }
}
