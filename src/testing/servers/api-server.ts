import type { Clock } from '../../runtime/clock.js';
import type { Rng } from '../../runtime/rng.js';
import type { Tokens, Verb } from './api-server-access.js';
import type { Fault, FaultOptions } from './api-server-fault.js';
import { LoopbackListener } from './api-server-listener.js';
import type { EndpointSliceObject, KubernetesObject, ServiceObject } from './api-server-objects.js';
import { type ApiServerOptions, type ResolvedApiServerOptions, resolveApiServerOptions } from './api-server-options.js';
import { StoreReads } from './api-server-reads.js';
import type { RecordedRequest } from './api-server-record.js';
import { RequestHandler } from './api-server-requests.js';
import { ServiceController, type ServiceOptions } from './api-server-service.js';
import { statusObject } from './api-server-status.js';
import { ObjectStore, type StoreBackup } from './api-server-store.js';
import type { Disturbance, Mangle } from './api-server-watch.js';

/** How the test API server starts again. */
export interface StartOptions {
  /** Whether a watch may start from versions of before the restart. @defaultValue 'kept' */
  readonly history?: 'kept' | 'lost';
  /** How long the first requests get 403, in ms, as from a real API server that still loads its rules. @defaultValue 20 */
  readonly forbiddenMs?: number;
}

/** The objects of one collection of the test API server, which tests write as a controller would. */
export interface Collection<T extends KubernetesObject> {
  /** Creates or replaces an object; the namespace defaults to `default`. Returns the object's new version. */
  put(object: T): string;
  /** Returns an object; undefined if there is none. The namespace defaults to `default`. */
  get(name: string, namespace?: string): T | undefined;
  /** Returns all objects, in every namespace. */
  list(): readonly T[];
  /** Deletes an object. Returns whether the object existed. */
  delete(name: string, namespace?: string): boolean;
}

/**
 * A Kubernetes API server for tests: real sockets, list and watch of EndpointSlices and Services, a real API server's behavior as far as
 * clients notice it, and every way in which one is known to fail. Runs until `close`.
 */
export interface ApiServer {
  /** The URL of the server, such as `http://127.0.0.1:41234`; a restart keeps it. */
  readonly url: string;
  /** The server's port on loopback; a restart keeps it. */
  readonly port: number;
  /** The certificate authority to trust, as PEM; undefined without TLS. */
  readonly ca: string | undefined;
  /** The EndpointSlices in the store. Every write to them reaches every watch. */
  readonly slices: Collection<EndpointSliceObject>;
  /** The Services in the store. */
  readonly services: Collection<ServiceObject>;
  /** Creates a Service whose slices are written from a list of pods. */
  service(namespace: string, name: string, options: ServiceOptions): ServiceController;

  /** The last 10,000 requests, oldest first. */
  readonly requests: readonly RecordedRequest[];
  /** How many requests and connections there were since the start, including restarts, and how many are open now. */
  readonly counts: {
    readonly lists: number;
    readonly watches: number;
    readonly gets: number;
    readonly openWatches: number;
    readonly connections: number;
    readonly openConnections: number;
  };
  /** The store's current version. */
  readonly revision: number;

  /** Makes the next requests of a verb fail: one, several, or certain ones. Faults queue up. */
  failNext(verb: Verb | 'any', fault: Fault, options?: FaultOptions): void;
  /** Forgets faults that no request has met yet. */
  clearFaults(): void;
  /** Disturbs every open watch. Returns how many there were. */
  disturb(what: Disturbance): number;
  /** Rewrites every line of every watch from now on; undefined stops the rewriting. */
  mangle(mangle: Mangle | undefined): void;

  /** Replaces tokens and permissions. Open watches continue, as with a real API server. */
  setTokens(tokens: Tokens | undefined): void;
  /** Makes every version up to now too old to watch from. */
  compact(): void;
  /** Makes the next page of every list that is being read fail with 410. */
  expireContinueTokens(): void;
  /** Increments the version without an event, as writes to other objects do. */
  touch(): void;
  /** Returns the store as it is now, for `restore`. */
  backup(): StoreBackup;
  /** Restores an old backup: the version goes back, and open watches get no event. */
  restore(backup: StoreBackup): void;
  /**
   * Makes the store behind the server available or unavailable. While it is unavailable, open watches go silent and consistent reads hang.
   */
  setStoreAvailable(available: boolean): void;
  /** Drops every packet, until `thaw` delivers what has accumulated. Connections can still be opened. */
  freeze(): void;
  /** Ends `freeze`: everything that was held back is delivered. */
  thaw(): void;

  /** Ends the server like SIGKILL: every connection is reset, new ones are refused. */
  kill(): Promise<void>;
  /** Ends the server like SIGTERM: new connections are refused; open watches go on for `graceMs`, then end. @defaultValue graceMs 60,000 */
  terminate(graceMs?: number): Promise<void>;
  /** Starts the server again on the same port. */
  start(options?: StartOptions): Promise<void>;
  /** Kills the server, waits for `downMs`, and starts it again. @defaultValue downMs 0 */
  restart(options?: StartOptions & { readonly downMs?: number }): Promise<void>;
  /** Ends everything; resolves when every socket is closed. May be called again. */
  close(): Promise<void>;
  /** Closes the server like `close`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Starts an API server on a loopback address.
 *
 * @example
 * const api = await createApiServer();
 * const orders = api.service('shop', 'orders', { ports: [{ name: 'http', port: 80, targetPort: 8080 }] });
 * orders.setPods([{ name: 'orders-1', address: '10.0.0.1' }]);
 * const resolver = endpointSlices({ namespace: 'shop', service: 'orders', port: 'http', apiServer: api.url });
 */
export async function createApiServer(options: ApiServerOptions = {}): Promise<ApiServer> {
  const server = new LoopbackApiServer(resolveApiServerOptions(options));
  await server.start({ forbiddenMs: 0 });
  return server;
}

class LoopbackApiServer implements ApiServer {
  readonly ca: string | undefined;
  readonly slices: Collection<EndpointSliceObject>;
  readonly services: Collection<ServiceObject>;
  readonly #store: ObjectStore;
  readonly #reads: StoreReads;
  readonly #handler: RequestHandler;
  readonly #clock: Clock;
  readonly #rng: Rng;
  readonly #listener: LoopbackListener;

  constructor(options: ResolvedApiServerOptions) {
    const { ca, host, port, certificate, clock, rng, tokens, historyLimit } = options;
    this.ca = ca;
    this.#clock = clock;
    this.#rng = rng;
    this.#store = new ObjectStore(historyLimit);
    this.#reads = new StoreReads(this.#store, options);
    this.#handler = new RequestHandler(this.#reads, clock, tokens);
    this.#listener = new LoopbackListener({
      host,
      port,
      certificate,
      clock,
      answer: (request, response) => this.#handler.handle(request, response),
    });
    this.slices = collection<EndpointSliceObject>(this.#store, 'endpointslices');
    this.services = collection<ServiceObject>(this.#store, 'services');
  }

  get url(): string {
    return this.#listener.url;
  }

  get port(): number {
    return this.#listener.port;
  }

  get requests(): readonly RecordedRequest[] {
    return this.#handler.requests;
  }

  get counts(): ApiServer['counts'] {
    const { list, watch, get } = this.#handler.counts;
    return {
      lists: list,
      watches: watch,
      gets: get,
      openWatches: this.#reads.watches.size,
      connections: this.#listener.connections,
      openConnections: this.#listener.open,
    };
  }

  get revision(): number {
    return this.#store.revision;
  }

  service(namespace: string, name: string, options: ServiceOptions): ServiceController {
    return new ServiceController(this.#store, this.#rng, namespace, name, options);
  }

  failNext(verb: Verb | 'any', fault: Fault, options: FaultOptions = {}): void {
    this.#handler.faults.add(verb, fault, options);
  }

  clearFaults(): void {
    this.#handler.faults.clear();
  }

  disturb(what: Disturbance): number {
    const open = [...this.#reads.watches];
    for (const watch of open) {
      if (typeof what === 'object' && 'error' in what) watch.error(statusObject(what.error, `scripted ${what.error}`));
      else watch.disturb(what);
    }
    return open.length;
  }

  mangle(mangle: Mangle | undefined): void {
    this.#reads.mangle = mangle;
  }

  setTokens(tokens: Tokens | undefined): void {
    this.#handler.tokens = tokens;
  }

  compact(): void {
    // The version is increased once more, so that the last version a client saw is too old as well.
    this.#store.touch();
    this.#store.compact();
  }

  expireContinueTokens(): void {
    this.#reads.epoch += 1;
  }

  touch(): void {
    this.#store.touch();
  }

  backup(): StoreBackup {
    return this.#store.backup();
  }

  restore(backup: StoreBackup): void {
    this.#store.restore(backup);
  }

  setStoreAvailable(available: boolean): void {
    this.#reads.setAvailable(available);
  }

  freeze(): void {
    this.#handler.freeze();
  }

  thaw(): void {
    this.#handler.thaw();
  }

  kill(): Promise<void> {
    return this.#listener.kill();
  }

  terminate(graceMs = 60_000): Promise<void> {
    const watches = [...this.#reads.watches];
    return this.#listener.terminate(graceMs, () => {
      for (const watch of watches) watch.end();
    });
  }

  async start(options: StartOptions = {}): Promise<void> {
    if (!this.#listener.canStart) return;
    if (options.history === 'lost') this.compact();
    await this.#listener.start();
    this.#handler.begin(options.forbiddenMs ?? 20);
  }

  async restart(options: StartOptions & { readonly downMs?: number } = {}): Promise<void> {
    await this.kill();
    const { downMs = 0 } = options;
    if (downMs > 0) await new Promise<void>((resolve) => this.#clock.timer(resolve, downMs).ref());
    await this.start(options);
  }

  close(): Promise<void> {
    return this.#listener.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function collection<T extends KubernetesObject>(
  store: ObjectStore,
  resource: 'endpointslices' | 'services',
): Collection<T> {
  return {
    put: (object) => String(store.put(resource, object).revision),
    get: (name, namespace = 'default') => store.get(resource, namespace, name)?.object as T | undefined,
    list: () => store.list(resource, '').map((stored) => stored.object as T),
    delete: (name, namespace = 'default') => store.delete(resource, namespace, name),
  };
}
