import { checkBoolean, checkKeys, checkNumber, checkString } from '../../runtime/check.js';
import { type Clock, systemClock, type Timer } from '../../runtime/clock.js';
import { type Rng, systemRng } from '../../runtime/rng.js';
import { DnsAnswerCache } from './dns-server-cache.js';
import { type DnsQueryEntry, QueryCounters } from './dns-server-counters.js';
import type { DnsFault, DnsFaultScope } from './dns-server-faults.js';
import type { DnsReply } from './dns-server-framing.js';
import { KubernetesZone } from './dns-server-kubernetes.js';
import { DnsListener } from './dns-server-listener.js';
import { type DnsAnswer, type DnsQuery, decodeQuery, encodeAnswer } from './dns-server-wire.js';
import { canonicalName, DnsZone, resolveQuestion } from './dns-server-zone.js';

/** Options of `createDnsServer`. */
export interface DnsServerOptions {
  /** The address to listen on, for UDP and TCP. @defaultValue '127.0.0.1' */
  readonly host?: string;
  /** The port for UDP and TCP; 0 takes a free port. @defaultValue 0 */
  readonly port?: number;
  /** The cluster domain of the Kubernetes Services. @defaultValue 'cluster.local' */
  readonly clusterDomain?: string;
  /** The TTL of the records of Kubernetes Services, in seconds. @defaultValue 5 */
  readonly ttl?: number;
  /** Whether records come in random order, as CoreDNS's `loadbalance` does. @defaultValue true */
  readonly shuffle?: boolean;
  /** Whether the server answers like a cache: an answer is kept for its TTL, which counts down. @defaultValue false */
  readonly cache?: boolean;
  /** The clock that controls delays and the cache's TTLs. @defaultValue the real clock */
  readonly clock?: Clock;
  /** The random numbers that decide the order of records. @defaultValue random */
  readonly rng?: Rng;
}

interface Fault extends DnsFaultScope {
  readonly fault: DnsFault;
  left: number;
}

/** The largest message that TCP can frame, in bytes. */
const MAX_TCP = 65_535;

/**
 * A real DNS server over UDP and TCP on one port, for tests and demos: plain records, Services as CoreDNS serves them, and faults
 * on demand. Point a client at `address`, for example with `Resolver.setServers([server.address])`.
 * Throws EVENKEEL_OPTION for invalid options.
 *
 * @example
 * const server = await createDnsServer();
 * server.kubernetes.set({ namespace: 'shop', name: 'orders', pods: [{ address: '10.0.0.1' }] });
 * await using _ = server;
 */
export async function createDnsServer(options: DnsServerOptions = {}): Promise<DnsServer> {
  const server = new DnsServer(options);
  await server.listen();
  return server;
}

/** A DNS server on loopback that answers as CoreDNS does in a cluster, and can be told to misbehave. */
export class DnsServer {
  /** The zone of plain records, which is asked after the Kubernetes Services. */
  readonly zone: DnsZone = new DnsZone();
  /** The Kubernetes Services, whose names are answered as CoreDNS does. */
  readonly kubernetes: KubernetesZone;

  readonly #listener: DnsListener;
  readonly #shuffle: boolean;
  readonly #clock: Clock;
  readonly #rng: Rng;
  readonly #cache: DnsAnswerCache | undefined;
  readonly #faults: Fault[] = [];
  readonly #timers = new Set<Timer>();
  readonly #counters = new QueryCounters();
  #closed = false;

  /** For `createDnsServer`, which also listens. */
  constructor(options: DnsServerOptions) {
    checkKeys('createDnsServer options', options, [
      'host',
      'port',
      'clusterDomain',
      'ttl',
      'shuffle',
      'cache',
      'clock',
      'rng',
    ]);
    const { host = '127.0.0.1', clusterDomain = 'cluster.local', clock = systemClock, rng = systemRng } = options;
    const port = checkNumber('port', options.port, 0, { min: 0, max: 65_535, integer: true });
    const ttl = checkNumber('ttl', options.ttl, 5, { min: 0, max: 2 ** 31 - 1, integer: true });
    this.#listener = new DnsListener(checkString('host', host), port, (message, reply) => this.#handle(message, reply));
    this.#shuffle = checkBoolean('shuffle', options.shuffle, true);
    this.#clock = clock;
    this.#rng = rng;
    this.#cache = checkBoolean('cache', options.cache, false) ? new DnsAnswerCache(clock) : undefined;
    this.kubernetes = new KubernetesZone(checkString('clusterDomain', clusterDomain), ttl);
  }

  /** The port on which the server listens, for UDP and TCP. */
  get port(): number {
    return this.#listener.port;
  }

  /** The address of the server as `ip:port`, which `dns.Resolver.setServers` takes. */
  get address(): string {
    return this.#listener.address;
  }

  /** Every query so far, oldest first, at most the last 10,000. */
  get queries(): readonly DnsQueryEntry[] {
    return this.#counters.log;
  }

  /** Returns how many queries came for a name, including a client's repeats; with `type`, only queries of that type. */
  count(name: string, type?: string): number {
    return this.#counters.count(canonicalName(name), type);
  }

  /**
   * Returns the largest number of queries for a name that were unanswered at one time. A repeated query counts once; a query dropped by the
   * fault `silent` does not count.
   */
  maxConcurrent(name: string): number {
    return this.#counters.peak(canonicalName(name));
  }

  /** Clears the log and all counters. */
  resetCounters(): void {
    this.#counters.reset();
  }

  /** Makes queries fail from now on; the last matching fault wins. The returned function removes the fault. */
  fault(fault: DnsFault, scope: DnsFaultScope = {}): () => void {
    const entry: Fault = { fault, ...scope, left: scope.times ?? Number.POSITIVE_INFINITY };
    this.#faults.push(entry);
    return () => {
      const index = this.#faults.indexOf(entry);
      if (index !== -1) this.#faults.splice(index, 1);
    };
  }

  /** Removes all faults. */
  clearFaults(): void {
    this.#faults.length = 0;
  }

  /** Sets whether TCP connections are accepted. Refusing them is like a firewall that lets only DNS over UDP through. */
  acceptTcp(accept: boolean): Promise<void> {
    return this.#listener.acceptTcp(accept);
  }

  /** Opens both sockets. `createDnsServer` calls this; after `stop`, it opens them again on the same port. */
  async listen(): Promise<void> {
    if (this.#closed) throw new Error('the DNS server was closed');
    await this.#listener.listen();
  }

  /** Closes both sockets, as if the process had died: clients are refused until `listen`. */
  async stop(): Promise<void> {
    for (const timer of this.#timers) timer.cancel();
    this.#timers.clear();
    this.#counters.forgetRunning();
    await this.#listener.stop();
  }

  /** Stops the DNS server for good. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.stop();
  }

  /** Closes the server like `close`, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #handle(message: Buffer, reply: DnsReply): void {
    const query = decodeQuery(message);
    if (query === undefined) return;
    const name = canonicalName(query.question.name);
    const { type } = query.question;
    this.#counters.note({ name, type, protocol: reply.protocol });
    const fault = this.#faultFor(name, type);
    if (fault?.kind === 'silent') return;
    const done = this.#counters.begin(name, `${reply.client}/${query.id}/${type}`);
    const answer = (): void => {
      done();
      reply.send(this.#message(query, name, reply.protocol, fault));
    };
    if (fault?.kind === 'slow') this.#later(answer, fault.delayMs);
    else answer();
  }

  #message(query: DnsQuery, name: string, protocol: 'udp' | 'tcp', fault: DnsFault | undefined): Buffer {
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

  #answer(name: string, type: string): DnsAnswer {
    const fresh = (): DnsAnswer =>
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

  #faultFor(name: string, type: string): DnsFault | undefined {
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

  #later(fn: () => void, delayMs: number): void {
    const timer = this.#clock.timer(() => {
      this.#timers.delete(timer);
      fn();
    }, delayMs);
    this.#timers.add(timer);
  }
}

function empty(rcode: DnsAnswer['rcode']): DnsAnswer {
  return { rcode, answers: [] };
}

function faultAnswer(rcode: Extract<DnsFault, { kind: 'rcode' }>['rcode']): DnsAnswer {
  return empty(rcode === 'NODATA' ? 'NOERROR' : rcode);
}

/** Returns a list in random order (Fisher–Yates). */
function shuffled<T>(items: readonly T[], rng: Rng): T[] {
  const result = [...items];
  for (let index = result.length - 1; index > 0; index--) {
    const other = Math.floor(rng.next() * (index + 1));
    [result[index], result[other]] = [result[other] as T, result[index] as T];
  }
  return result;
}
