import type { ApiClient, ApiReply, ApiRequest } from '../../../../src/resolver/kubernetes/api/api-client.js';
import { settle } from '../../../../src/testing/fake-clock.js';

/** One request a test answers by hand. */
export class PendingGet {
  readonly request: ApiRequest;
  /** Whether the client cut it. */
  aborted = false;
  readonly #resolve: (reply: ApiReply) => void;
  readonly #reject: (error: unknown) => void;
  #onData: ((chunk: Uint8Array) => void) | undefined;
  #endBody: (() => void) | undefined;
  #failBody: ((error: unknown) => void) | undefined;
  /** What was sent before anybody read. */
  readonly #early: Uint8Array[] = [];
  #ended = false;

  constructor(request: ApiRequest, resolve: (reply: ApiReply) => void, reject: (error: unknown) => void) {
    this.request = request;
    this.#resolve = resolve;
    this.#reject = reject;
    request.signal.addEventListener('abort', () => {
      this.aborted = true;
      reject(request.signal.reason);
      this.#failBody?.(request.signal.reason);
    });
  }

  get verb(): 'list' | 'watch' | 'get' {
    if (this.request.query.watch === 'true') return 'watch';
    return this.request.path.startsWith('/api/v1/') ? 'get' : 'list';
  }

  get version(): string | undefined {
    return this.request.query.resourceVersion;
  }

  /** A whole answer. */
  async answer(status: number, body: unknown = {}, retryAfterMs?: number): Promise<void> {
    this.#open(status, retryAfterMs);
    await settle();
    this.write(typeof body === 'string' ? body : JSON.stringify(body));
    await this.end();
  }

  /** Headers only: the body follows with `event`, `write`, `end` or `fail`. */
  async open(): Promise<void> {
    this.#open(200, undefined);
    await settle();
  }

  event(type: string, object: unknown): void {
    this.write(`${JSON.stringify({ type, object })}\n`);
  }

  write(bytes: string | Uint8Array): void {
    const chunk = typeof bytes === 'string' ? Buffer.from(bytes) : bytes;
    if (this.#onData === undefined) {
      this.#early.push(chunk);
      return;
    }
    try {
      this.#onData(chunk);
    } catch (error) {
      this.#failBody?.(error);
    }
  }

  async end(): Promise<void> {
    this.#ended = true;
    this.#endBody?.();
    await settle();
  }

  /** No connection, or, once open, a broken one. */
  async fail(code: string): Promise<void> {
    const error = Object.assign(new Error(`scripted ${code}`), { code });
    this.#reject(error);
    this.#failBody?.(error);
    await settle();
  }

  #open(status: number, retryAfterMs: number | undefined): void {
    this.#resolve({
      status,
      retryAfterMs,
      read: (onData) =>
        new Promise((resolve, reject) => {
          this.#onData = onData;
          this.#endBody = resolve;
          this.#failBody = reject;
          for (const chunk of this.#early) this.write(chunk);
          if (this.#ended) resolve();
        }),
      discard: () => {},
    });
  }
}

/** An API client whose answers a test gives one by one. */
export class FakeApiClient implements ApiClient {
  /** Every request ever made, in order. */
  readonly all: PendingGet[] = [];
  readonly server: string = 'https://10.96.0.1:443';
  closed = false;
  /** How often idle connections were dropped. */
  drops = 0;

  get(request: ApiRequest): Promise<ApiReply> {
    return new Promise((resolve, reject) => this.all.push(new PendingGet(request, resolve, reject)));
  }

  dropIdle(): void {
    this.drops += 1;
  }

  close(): void {
    this.closed = true;
  }

  get last(): PendingGet {
    return this.all[this.all.length - 1] as PendingGet;
  }

  count(verb: PendingGet['verb']): number {
    return this.all.filter((request) => request.verb === verb).length;
  }
}

/** A slice as the API server would send it. */
export function wireSlice(name: string, version: number, addresses: readonly string[], service = 'orders'): object {
  return {
    kind: 'EndpointSlice',
    apiVersion: 'discovery.k8s.io/v1',
    metadata: {
      name,
      namespace: 'shop',
      resourceVersion: String(version),
      labels: { 'kubernetes.io/service-name': service },
    },
    addressType: 'IPv4',
    endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
    ports: [{ name: 'http', port: 80, protocol: 'TCP' }],
  };
}

export function wireList(version: number, items: readonly object[], next = ''): object {
  return {
    kind: 'EndpointSliceList',
    apiVersion: 'discovery.k8s.io/v1',
    metadata: { resourceVersion: String(version), ...(next === '' ? {} : { continue: next }) },
    items,
  };
}

export function bookmark(version: number): object {
  return {
    kind: 'EndpointSlice',
    metadata: { resourceVersion: String(version) },
    addressType: '',
    endpoints: null,
    ports: null,
  };
}

export function status(code: number, reason = '', causes: readonly object[] = []): object {
  return {
    kind: 'Status',
    metadata: {},
    status: 'Failure',
    code,
    reason,
    message: `scripted ${code}`,
    details: { causes },
  };
}
