import { createServer as createHttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { resetSocket, StoreReads, statusObject } from './api-reads.js';
import { RequestHandler } from './api-requests.js';
import { ObjectStore } from './api-store.js';
import { createCertificate } from './certificate.js';
import { ServiceController } from './service-controller.js';
import { randomNumbers, realClock } from './time.js';

export async function createApiServer(options = {}) {
  const server = new LoopbackApiServer({
    host: '127.0.0.1',
    port: 0,
    historyLimit: 1_000,
    bookmarkIntervalMs: 60_000,
    pagesFromCache: false,
    streamingLists: true,
    clock: realClock,
    rng: randomNumbers,
    ...options,
    ...identity(options.tls),
  });
  await server.start({ forbiddenMs: 0 });
  return server;
}

class LoopbackApiServer {
  ca;
  slices;
  services;
  #store;
  #reads;
  #handler;
  #clock;
  #rng;
  #listener;

  constructor(options) {
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
    this.slices = collection(this.#store, 'endpointslices');
    this.services = collection(this.#store, 'services');
  }

  get url() {
    return this.#listener.url;
  }

  get port() {
    return this.#listener.port;
  }

  get requests() {
    return this.#handler.requests;
  }

  get counts() {
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

  get revision() {
    return this.#store.revision;
  }

  service(namespace, name, options) {
    return new ServiceController(this.#store, this.#rng, namespace, name, options);
  }

  failNext(verb, fault, options = {}) {
    this.#handler.faults.add(verb, fault, options);
  }

  clearFaults() {
    this.#handler.faults.clear();
  }

  disturb(what) {
    const open = [...this.#reads.watches];
    for (const watch of open) {
      if (typeof what === 'object' && 'error' in what) watch.error(statusObject(what.error, `scripted ${what.error}`));
      else watch.disturb(what);
    }
    return open.length;
  }

  mangle(mangle) {
    this.#reads.mangle = mangle;
  }

  setTokens(tokens) {
    this.#handler.tokens = tokens;
  }

  compact() {
    // The version is increased once more, so that the last version a client saw is too old as well.
    this.#store.touch();
    this.#store.compact();
  }

  expireContinueTokens() {
    this.#reads.epoch += 1;
  }

  touch() {
    this.#store.touch();
  }

  backup() {
    return this.#store.backup();
  }

  restore(backup) {
    this.#store.restore(backup);
  }

  setStoreAvailable(available) {
    this.#reads.setAvailable(available);
  }

  freeze() {
    this.#handler.freeze();
  }

  thaw() {
    this.#handler.thaw();
  }

  kill() {
    return this.#listener.kill();
  }

  terminate(graceMs = 60_000) {
    const watches = [...this.#reads.watches];
    return this.#listener.terminate(graceMs, () => {
      for (const watch of watches) watch.end();
    });
  }

  async start(options = {}) {
    if (!this.#listener.canStart) return;
    if (options.history === 'lost') this.compact();
    await this.#listener.start();
    this.#handler.begin(options.forbiddenMs ?? 20);
  }

  async restart(options = {}) {
    await this.kill();
    const { downMs = 0 } = options;
    if (downMs > 0) await new Promise((resolve) => this.#clock.timer(resolve, downMs).ref());
    await this.start(options);
  }

  close() {
    return this.#listener.close();
  }

  [Symbol.asyncDispose]() {
    return this.close();
  }
}

function collection(store, resource) {
  return {
    put: (object) => String(store.put(resource, object).revision),
    get: (name, namespace = 'default') => store.get(resource, namespace, name)?.object,
    list: () => store.list(resource, '').map((stored) => stored.object),
    delete: (name, namespace = 'default') => store.delete(resource, namespace, name),
  };
}

/** The process of an API server as clients see it: a port on a loopback address and its connections, killed and started on demand. */
export class LoopbackListener {
  /** How many connections were accepted, over all starts. */
  connections = 0;
  #parts;
  /** With the port of the client. */
  #sockets = new Map();
  /** Those of TLS, by that port: of one that shuts down, the socket below does not say so. */
  #secured = new Map();
  #port;
  #server;
  #grace;
  #closed = false;

  constructor(parts) {
    this.#parts = parts;
    this.#port = parts.port;
  }

  get url() {
    const { certificate, host } = this.#parts;
    return `${certificate === undefined ? 'http' : 'https'}://${host === '::1' ? '[::1]' : host}:${this.#port}`;
  }

  get port() {
    return this.#port;
  }

  /** How many connections are open now. */
  get open() {
    return this.#sockets.size;
  }

  /** Whether the server may be started: false while it runs, and after `close`. */
  get canStart() {
    return !this.#closed && this.#server === undefined;
  }

  async start() {
    const { certificate, answer, host } = this.#parts;
    const server = certificate === undefined ? createHttpServer(answer) : createHttpsServer({ ...certificate }, answer);
    server.keepAliveTimeout = 90_000;
    server.requestTimeout = 0;
    server.on('connection', (socket) => {
      this.connections += 1;
      this.#sockets.set(socket, socket.remotePort);
      socket.setNoDelay(true);
      socket.on('error', () => {});
      socket.on('close', () => this.#sockets.delete(socket));
    });
    server.on('secureConnection', (socket) => {
      const { remotePort } = socket;
      this.#secured.set(remotePort, socket);
      socket.on('close', () => this.#secured.get(remotePort) === socket && this.#secured.delete(remotePort));
    });
    // In TLS tests, clients reject the server's certificate on purpose.
    server.on('tlsClientError', () => {});
    await listen(server, host, this.#port);
    this.#server = server;
    this.#port = /** @type {import('node:net').AddressInfo} */ (server.address()).port;
  }

  /** Ends the server as SIGKILL would: every connection is reset. Resolves when all are gone. */
  async kill() {
    const server = this.#server;
    this.#server = undefined;
    this.#grace?.cancel();
    const closed = server === undefined ? undefined : closeServer(server);
    for (const [socket, port] of this.#sockets) {
      const secured = this.#secured.get(port);
      if (secured?.writableEnded) secured.destroy();
      else resetSocket(socket);
    }
    await closed;
    await this.#allGone();
  }

  /** Ends the server as SIGTERM would: the port is free at once; connections live on for `graceMs`, are notified by `ending`, and end. */
  async terminate(graceMs, ending) {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    const sockets = [...this.#sockets.keys()];
    const closed = closeServer(server);
    this.#grace?.cancel();
    this.#grace = this.#parts.clock.timer(() => {
      ending();
      for (const socket of sockets) socket.destroySoon();
    }, graceMs);
    // The port is free at once, so nothing waits for the connections.
    closed.catch(() => {});
  }

  /** Ends the server as `kill` does, permanently. */
  async close() {
    this.#closed = true;
    await this.kill();
  }

  async #allGone() {
    // A socket leaves the set on `close`, so every socket in the set will still emit `close`.
    await Promise.all(
      [...this.#sockets.keys()].map((socket) => new Promise((resolve) => socket.once('close', resolve))),
    );
  }
}

function listen(server, host, port) {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve(undefined);
    });
  });
}

function closeServer(server) {
  return new Promise((resolve) => server.close(resolve));
}

/** Returns the server's certificate and its authority. A certificate that a test passes is its own authority. */
function identity(tls) {
  if (tls === true) {
    const authority = createCertificate({ commonName: 'evenkeel test authority', hosts: [] });
    return { certificate: createCertificate({ issuer: authority }), ca: authority.cert };
  }
  return tls ? { certificate: tls, ca: tls.cert } : { certificate: undefined, ca: undefined };
}
