import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';
import { decodeQuery, encodeAnswer } from './dns-wire.js';
import { canonicalName, DnsZone, KubernetesZone, resolveQuestion } from './dns-zone.js';
import { randomNumbers, realClock } from './time.js';

/** The largest message that TCP can frame, in bytes. */
const MAX_TCP = 65_535;

export async function createDnsServer(options = {}) {
  const server = new DnsServer(options);
  await server.listen();
  return server;
}

/** A DNS server on loopback that answers as CoreDNS does in a cluster, and can be told to misbehave. */
export class DnsServer {
  /** The zone of plain records, which is asked after the Kubernetes Services. */
  zone = new DnsZone();
  /** The Kubernetes Services, whose names are answered as CoreDNS does. */
  kubernetes;

  #listener;
  #shuffle;
  #clock;
  #rng;
  #cache;
  #faults = [];
  #timers = new Set();
  #counters = new QueryCounters();
  #closed = false;

  /** For `createDnsServer`, which also listens. */
  constructor(options) {
    const { host = '127.0.0.1', port = 0, clusterDomain = 'cluster.local', ttl = 5 } = options;
    const { shuffle = true, cache = false, clock = realClock, rng = randomNumbers } = options;
    this.#listener = new DnsListener(host, port, (message, reply) => this.#handle(message, reply));
    this.#shuffle = shuffle;
    this.#clock = clock;
    this.#rng = rng;
    this.#cache = cache ? new DnsAnswerCache(clock) : undefined;
    this.kubernetes = new KubernetesZone(clusterDomain, ttl);
  }

  /** The port on which the server listens, for UDP and TCP. */
  get port() {
    return this.#listener.port;
  }

  /** The address of the server as `ip:port`, which `dns.Resolver.setServers` takes. */
  get address() {
    return this.#listener.address;
  }

  /** Every query so far, oldest first, at most the last 10,000. */
  get queries() {
    return this.#counters.log;
  }

  /** Returns how many queries came for a name, including a client's repeats; with `type`, only queries of that type. */
  count(name, type) {
    return this.#counters.count(canonicalName(name), type);
  }

  /**
   * Returns the largest number of queries for a name that were unanswered at one time. A repeated query counts once; a query dropped by the
   * fault `silent` does not count.
   */
  maxConcurrent(name) {
    return this.#counters.peak(canonicalName(name));
  }

  /** Clears the log and all counters. */
  resetCounters() {
    this.#counters.reset();
  }

  /** Makes queries fail from now on; the last matching fault wins. The returned function removes the fault. */
  fault(fault, scope = {}) {
    const entry = { fault, ...scope, left: scope.times ?? Number.POSITIVE_INFINITY };
    this.#faults.push(entry);
    return () => {
      const index = this.#faults.indexOf(entry);
      if (index !== -1) this.#faults.splice(index, 1);
    };
  }

  /** Removes all faults. */
  clearFaults() {
    this.#faults.length = 0;
  }

  /** Sets whether TCP connections are accepted. Refusing them is like a firewall that lets only DNS over UDP through. */
  acceptTcp(accept) {
    return this.#listener.acceptTcp(accept);
  }

  /** Opens both sockets. `createDnsServer` calls this; after `stop`, it opens them again on the same port. */
  async listen() {
    if (this.#closed) throw new Error('the DNS server was closed');
    await this.#listener.listen();
  }

  /** Closes both sockets, as if the process had died: clients are refused until `listen`. */
  async stop() {
    for (const timer of this.#timers) timer.cancel();
    this.#timers.clear();
    this.#counters.forgetRunning();
    await this.#listener.stop();
  }

  /** Stops the DNS server for good. */
  async close() {
    this.#closed = true;
    await this.stop();
  }

  /** Closes the server like `close`, for `await using`. */
  async [Symbol.asyncDispose]() {
    await this.close();
  }

  #handle(message, reply) {
    const query = decodeQuery(message);
    if (query === undefined) return;
    const name = canonicalName(query.question.name);
    const { type } = query.question;
    this.#counters.note({ name, type, protocol: reply.protocol });
    const fault = this.#faultFor(name, type);
    if (fault?.kind === 'silent') return;
    const done = this.#counters.begin(name, `${reply.client}/${query.id}/${type}`);
    const answer = () => {
      done();
      reply.send(this.#message(query, name, reply.protocol, fault));
    };
    if (fault?.kind === 'slow') this.#later(answer, fault.delayMs);
    else answer();
  }

  #message(query, name, protocol, fault) {
    if (fault?.kind === 'garbage') {
      const garbage = Buffer.from([0, 0, 0x81, 0x80, 0, 1, 0, 9, 0xff, 0xff, 0xff, 0xff, 0x3f, 0x21]);
      garbage.writeUInt16BE(query.id, 0);
      return garbage;
    }
    if (fault?.kind === 'truncate' && protocol === 'udp') return encodeAnswer(query, empty('NOERROR'), true);
    const answer = fault?.kind === 'rcode' ? faultAnswer(fault.rcode) : this.#answer(name, query.question.type);
    const message = encodeAnswer(query, answer);
    if (protocol === 'udp') return message.length <= query.udpSize ? message : encodeAnswer(query, answer, true);
    return message.length <= MAX_TCP ? message : encodeAnswer(query, empty('FORMERR'));
  }

  #answer(name, type) {
    const fresh = () =>
      resolveQuestion(
        [
          (question, questionType) => this.kubernetes.answer(question, questionType),
          (question, questionType) => this.zone.answer(question, questionType),
        ],
        name,
        type,
      );
    const answer = this.#cache === undefined ? fresh() : this.#cache.get(name, type, fresh);
    if (!this.#shuffle) return answer;
    // A CNAME must come before the records to which it leads.
    const chain = answer.answers.filter((record) => record.type === 'CNAME');
    const rest = answer.answers.filter((record) => record.type !== 'CNAME');
    return { ...answer, answers: [...chain, ...shuffled(rest, this.#rng)] };
  }

  #faultFor(name, type) {
    const entry = this.#faults.findLast(
      (candidate) =>
        candidate.left > 0 &&
        (candidate.name === undefined || canonicalName(candidate.name) === name) &&
        (candidate.type === undefined || candidate.type === type),
    );
    if (entry === undefined) return undefined;
    entry.left--;
    return entry.fault;
  }

  #later(fn, delayMs) {
    const timer = this.#clock.timer(() => {
      this.#timers.delete(timer);
      fn();
    }, delayMs);
    this.#timers.add(timer);
  }
}

function empty(rcode) {
  return { rcode, answers: [] };
}

function faultAnswer(rcode) {
  return empty(rcode === 'NODATA' ? 'NOERROR' : rcode);
}

/** Returns a list in random order (Fisher–Yates). */
function shuffled(items, rng) {
  const result = [...items];
  for (let index = result.length - 1; index > 0; index--) {
    const other = Math.floor(rng.next() * (index + 1));
    [result[index], result[other]] = [result[other], result[index]];
  }
  return result;
}

/** How many free TCP ports are tried to find one that is free for UDP too. */
const MAX_TRIES = 10;

/** The process of a DNS server as clients see it: one port for UDP and TCP, opened and closed on demand. */
export class DnsListener {
  #host;
  #handle;
  #connections = new Set();
  #port;
  #udp;
  #tcp;

  /** @param port The port for UDP and TCP; 0 takes a free port and keeps it for every later `listen`. */
  constructor(host, port, handle) {
    this.#host = host;
    this.#port = port;
    this.#handle = handle;
  }

  get port() {
    return this.#port;
  }

  /** The address of the server as `ip:port`, which `dns.Resolver.setServers` expects. */
  get address() {
    return this.#host.includes(':') ? `[${this.#host}]:${this.#port}` : `${this.#host}:${this.#port}`;
  }

  /** Opens the UDP and the TCP socket. */
  async listen() {
    // TCP is opened first; if its port is taken for UDP, another port is tried.
    for (let attempt = 1; ; attempt++) {
      const port = await this.#listenTcp(this.#port);
      try {
        await this.#listenUdp(port);
        this.#port = port;
        return;
      } catch (error) {
        await this.#closeTcp();
        if (this.#port !== 0 || attempt === MAX_TRIES) throw error;
      }
    }
  }

  /** Closes both sockets, and every TCP connection. */
  async stop() {
    const udp = this.#udp;
    this.#udp = undefined;
    if (udp !== undefined) await new Promise((resolve) => udp.close(resolve));
    await this.#closeTcp();
  }

  /** Starts or stops listening on TCP. */
  async acceptTcp(accept) {
    if (accept && this.#tcp === undefined) await this.#listenTcp(this.#port);
    if (!accept) await this.#closeTcp();
  }

  async #listenUdp(port) {
    const socket = createSocket(this.#host.includes(':') ? 'udp6' : 'udp4');
    socket.on('message', (message, from) => {
      this.#handle(message, {
        protocol: 'udp',
        client: `udp ${from.address}:${from.port}`,
        send: (answer) => {
          if (this.#udp === socket) socket.send(answer, from.port, from.address, () => {});
        },
      });
    });
    await new Promise((resolve, reject) => {
      socket.once('error', (error) => {
        socket.close();
        reject(error);
      });
      socket.bind(port, this.#host, () => {
        socket.removeAllListeners('error');
        socket.on('error', () => {}); // ignores an ICMP answer to a client that is gone
        resolve(undefined);
      });
    });
    this.#udp = socket;
  }

  async #listenTcp(port) {
    const server = createServer((socket) => {
      this.#connections.add(socket);
      socket.on('close', () => this.#connections.delete(socket));
      readFramed(socket, (message, reply) => this.#handle(message, reply));
    });
    await new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, this.#host, () => resolve(undefined));
    });
    this.#tcp = server;
    const address = server.address();
    return typeof address === 'object' && address !== null ? address.port : port;
  }

  async #closeTcp() {
    const server = this.#tcp;
    this.#tcp = undefined;
    for (const socket of this.#connections) socket.destroy();
    if (server !== undefined) await new Promise((resolve) => server.close(resolve));
  }
}

/** Reads length-prefixed queries from a TCP connection, and frames the answers in the same way. */
export function readFramed(socket, handle) {
  const client = `tcp ${socket.remoteAddress}:${socket.remotePort}`;
  let pending = Buffer.alloc(0);
  socket.on('error', () => {});
  socket.on('data', (chunk) => {
    // Each message is preceded by its length (RFC 1035 4.2.2); a chunk may hold a part of a message, or several messages.
    pending = Buffer.concat([pending, chunk]);
    while (pending.length >= 2 && pending.length >= 2 + pending.readUInt16BE(0)) {
      const end = 2 + pending.readUInt16BE(0);
      const message = pending.subarray(2, end);
      pending = pending.subarray(end);
      handle(message, {
        protocol: 'tcp',
        client,
        send: (answer) => {
          const length = Buffer.alloc(2);
          length.writeUInt16BE(answer.length, 0);
          if (socket.writable) socket.write(Buffer.concat([length, answer]));
        },
      });
    }
  });
}

/** The size from which on the log drops its oldest queries; the counters keep counting. */
const MAX_LOG = 10_000;

/** Counts the queries of a DNS server, by canonical name. */
export class QueryCounters {
  #log = [];
  /** How many queries arrived, by name, and by name and type. */
  #counts = new Map();
  #running = new Map();
  #peaks = new Map();

  get log() {
    return this.#log;
  }

  count(name, type) {
    return this.#counts.get(keyOf(name, type)) ?? 0;
  }

  /** The most queries for this name that ran at once. */
  peak(name) {
    return this.#peaks.get(name) ?? 0;
  }

  note(entry) {
    this.#log.push(entry);
    if (this.#log.length > MAX_LOG) this.#log.shift();
    for (const key of [keyOf(entry.name, undefined), keyOf(entry.name, entry.type)]) {
      this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
    }
  }

  /** Counts a query as running until the returned function is called. A query with the `id` of a running one is that query, repeated. */
  begin(name, id) {
    const running = this.#running.get(name) ?? new Set();
    this.#running.set(name, running.add(id));
    this.#peaks.set(name, Math.max(this.peak(name), running.size));
    return () => {
      running.delete(id);
      if (running.size === 0) this.#running.delete(name);
    };
  }

  /** Forgets the running queries, which will not be answered any more. */
  forgetRunning() {
    this.#running.clear();
  }

  /** Clears the log and all counts; running queries continue. */
  reset() {
    this.#log.length = 0;
    this.#counts.clear();
    this.#peaks.clear();
  }
}

function keyOf(name, type) {
  return `${name} ${type ?? '*'}`;
}

/** A cache as between a client and a name server: returns one answer until its shortest TTL is over, with TTLs that count down to 0. */
export class DnsAnswerCache {
  #clock;
  #answers = new Map();

  constructor(clock) {
    this.#clock = clock;
  }

  get(name, type, fresh) {
    const key = `${name} ${type}`;
    const now = this.#clock.now();
    let cached = this.#answers.get(key);
    if (cached === undefined || now - cached.filledAt >= cached.ttlMs) {
      const answer = fresh();
      const ttls = [...answer.answers, ...(answer.authority ?? [])].map((record) => record.ttl);
      cached = { answer, filledAt: now, ttlMs: ttls.length === 0 ? 0 : Math.min(...ttls) * 1_000 };
      this.#answers.set(key, cached);
    }
    const ageSeconds = Math.floor((now - cached.filledAt) / 1_000);
    const aged = (records = []) => records.map((record) => ({ ...record, ttl: Math.max(0, record.ttl - ageSeconds) }));
    const { rcode, answers, authority, additional } = cached.answer;
    return { rcode, answers: aged(answers), authority: aged(authority), additional: aged(additional) };
  }
}
