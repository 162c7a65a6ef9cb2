import { asError } from '../errors.js';
import { optionError } from '../runtime/check.js';
import { type Clock, inBackground } from '../runtime/clock.js';
import { absoluteName, type ClusterNames, parseServiceHost, plainName, readClusterNames } from './cluster-domain.js';
import { type DnsSettings, resolveDnsOptions } from './dns.js';
import type { DnsClient } from './dns-client.js';
import { lookUp } from './dns-lookup.js';

/** Which hosts are Services: these and no others, or what a function says; where it says nothing, DNS decides. */
export type ServiceRule = readonly string[] | ((origin: URL) => boolean | undefined);

/** What `ServiceHosts` takes. */
export interface ServiceHostsOptions {
  /** Which hosts are Services. @defaultValue DNS decides about every host */
  readonly services?: ServiceRule | undefined;
  /** How DNS is asked. @defaultValue {}, see `DnsSettings` */
  readonly dns?: DnsSettings | undefined;
  /** How long one question to DNS may take, in ms, above 0. */
  readonly lookupTimeoutMs: number;
  /** Tells when a host is asked about again. */
  readonly clock: Clock;
}

/** What is known of one host. */
export interface ServiceHostSnapshot {
  /** The absolute name DNS was asked for. */
  readonly name: string;
  /** Undefined while it is being asked for the first time. */
  readonly service: boolean | undefined;
  /** Why DNS could not say. */
  readonly trouble?: string;
}

interface Known {
  verdict: boolean | undefined;
  trouble: string | undefined;
  /** When a "no" may be asked about again. */
  askAgainMs: number;
  asking: Promise<boolean> | undefined;
}

/** How long "no such Service" is believed, in ms. */
const NEGATIVE_MS = 30_000;
/** How long DNS is left in peace after it could not say, in ms. */
const TROUBLE_MS = 5_000;
/** Where Services of several clusters have their names (KEP-1645); only the name servers of a cluster know it. */
const CLUSTER_SET_DOMAIN = 'clusterset.local';
/** How many hosts are remembered; the one known longest is forgotten first, those that are no Services before the others. */
const MAX_KNOWN = 2_000;
/** How many lookups run at once. Further hosts are answered "no" meanwhile. */
const MAX_ASKING = 100;
/** Time for the first try; the second takes twice that, so that both fit into the default time-out. */
const FIRST_TRY_MS = 600;

/**
 * Tells Services from other hosts. A host is a Service if `<host>.svc.<cluster domain>.` exists; names that end in `.svc` or
 * `.svc.<domain>` are asked for as they are, where the domain is the cluster's own or `clusterset.local`: under any other its
 * owner can create any number of Services. IP addresses, `localhost` and longer names are not asked for, and outside a cluster
 * only the latter two forms are: there nothing says that `orders.shop` is not on the internet.
 *
 * One question per host, shared by all who want to know. "No" is believed for 30 s, then asked for again in the background;
 * "yes" until it is forgotten. If DNS gives no answer, the host does not count as a Service, and is looked up again 5 s later.
 * Asks only when it is asked itself.
 */
export class ServiceHosts {
  readonly #clock: Clock;
  readonly #lookupTimeoutMs: number;
  readonly #dns: ReturnType<typeof resolveDnsOptions>;
  readonly #rule: ServiceRule | undefined;
  readonly #known = new Map<string, Known>();
  /** Calls off the questions that are running. */
  readonly #questions = new Set<() => void>();
  /** What short names are completed with, once it is read. */
  #names: ClusterNames | undefined;
  #reading: Promise<void> | undefined;
  /** The absolute names of the list, once the names of the cluster are known. */
  #listed: ReadonlySet<string> | undefined;
  #closed = false;

  /** Throws EVENKEEL_OPTION. */
  constructor({ services, dns = {}, lookupTimeoutMs, clock }: ServiceHostsOptions) {
    if (services !== undefined && typeof services !== 'function') checkHosts(services);
    this.#rule = services;
    this.#dns = resolveDnsOptions({ timeoutMs: FIRST_TRY_MS, ...dns, host: 'service', port: 80 });
    this.#lookupTimeoutMs = lookupTimeoutMs;
    this.#clock = clock;
  }

  /**
   * Whether the host of `origin` is a Service. The promise of an answer never rejects, and is settled within the
   * time-out. Throws what the user's function throws.
   */
  judge(origin: URL): boolean | Promise<boolean> {
    const told = typeof this.#rule === 'function' ? checked(this.#rule(origin)) : undefined;
    if (this.#closed || told === false) return false;
    const isOpen = told === undefined && typeof this.#rule !== 'object';
    if (isOpen && parseServiceHost(withoutDot(origin.hostname)) === undefined) return false;
    // The names are needed for a "yes" too, since it tells which Service.
    return this.#names === undefined ? this.#read().then(() => this.#decide(origin, told)) : this.#decide(origin, told);
  }

  /** The absolute name of a host: one for all spellings of a Service. Only for what was judged to be one. */
  nameOf({ hostname }: { readonly hostname: string }): string {
    return absoluteName(withoutDot(hostname), this.#cluster);
  }

  /** Forgets a Service, so that it is asked for again when it is next wanted. */
  forget(name: string): void {
    this.#known.delete(name);
  }

  snapshot(): ServiceHostSnapshot[] {
    return [...this.#known].map(([name, { verdict, trouble }]) => ({
      name,
      service: verdict,
      ...(trouble !== undefined && { trouble }),
    }));
  }

  /** Ends all lookups; waiting callers get "no". */
  close(): void {
    this.#closed = true;
    for (const callOff of this.#questions) callOff();
    this.#known.clear();
  }

  #decide(origin: URL, told: true | undefined): boolean | Promise<boolean> {
    if (told === true) return true;
    if (this.#listed !== undefined) return this.#listed.has(this.nameOf(origin));
    const { namespace } = this.#cluster;
    const inCluster = namespace !== undefined || this.#dns.clusterDomain !== undefined;
    const name = plainName(withoutDot(origin.hostname), this.#cluster, inCluster);
    const service = parseServiceHost(name);
    const isOurs = service?.domain === bareDomain(this.#cluster.domain) || service?.domain === CLUSTER_SET_DOMAIN;
    return !isOurs || this.#closed ? false : this.#lookUp(name);
  }

  get #cluster(): ClusterNames {
    return this.#names ?? { domain: 'cluster.local', namespace: undefined };
  }

  #read(): Promise<void> {
    const { clusterDomain, namespace, clusterFiles } = this.#dns;
    this.#reading ??= readClusterNames(clusterFiles).then((read) => {
      this.#names = { domain: clusterDomain ?? read.domain, namespace: namespace ?? read.namespace };
      if (typeof this.#rule !== 'object') return;
      this.#listed = new Set(this.#rule.map((hostname) => this.nameOf({ hostname: hostname.toLowerCase() })));
    });
    return this.#reading;
  }

  #lookUp(name: string): boolean | Promise<boolean> {
    let known = this.#known.get(name);
    if (known?.verdict === true) return true;
    if (known?.verdict === false && this.#clock.now() < known.askAgainMs) return false;
    if (known === undefined) {
      if (this.#questions.size >= MAX_ASKING) return false;
      known = { verdict: undefined, trouble: undefined, askAgainMs: 0, asking: undefined };
      this.#remember(name, known);
    }
    if (known.asking === undefined && this.#questions.size < MAX_ASKING) {
      const asked = known;
      // Not in the context of the request that happens to be the first.
      known.asking = inBackground(() => this.#ask(name, asked));
    }
    // Who has heard "no" before does not wait to hear it again.
    return known.verdict ?? known.asking ?? false;
  }

  #remember(name: string, known: Known): void {
    if (this.#known.size >= MAX_KNOWN) {
      let [oldest] = this.#known.keys();
      for (const [host, { verdict }] of this.#known) {
        if (verdict === true) continue;
        oldest = host;
        break;
      }
      if (oldest !== undefined) this.#known.delete(oldest);
    }
    this.#known.set(name, known);
  }

  async #ask(name: string, known: Known): Promise<boolean> {
    let client: DnsClient | undefined;
    let callOff = (): void => {};
    const calledOff = new Promise<never>((_resolve, reject) => {
      callOff = () => reject(new Error(`DNS is silent about ${name}`));
    });
    this.#questions.add(callOff);
    const timer = this.#clock.timer(callOff, this.#lookupTimeoutMs);
    // Somebody waits for the first answer, nobody for a later one.
    if (known.verdict === undefined) timer.ref();
    try {
      client = this.#dns.client();
      const question = { name, port: 1, srv: undefined, family: undefined };
      const { targets } = await Promise.race([lookUp(client, question), calledOff]);
      known.verdict = targets.length > 0;
      known.trouble = undefined;
      known.askAgainMs = this.#clock.now() + NEGATIVE_MS;
    } catch (error) {
      client?.cancel();
      known.verdict ??= false;
      known.trouble = asError(error).message;
      known.askAgainMs = this.#clock.now() + TROUBLE_MS;
    }
    timer.cancel();
    this.#questions.delete(callOff);
    known.asking = undefined;
    return known.verdict;
  }
}

function bareDomain(domain: string): string {
  return domain.toLowerCase().replace(/^\.+|\.+$/g, '');
}

function checkHosts(value: unknown): void {
  if (!Array.isArray(value)) throw optionError('services', 'a list of host names or a function', value);
  value.forEach((host, index) => {
    if (typeof host === 'string' && /^[a-z0-9_.-]+$/i.test(host)) return;
    throw optionError(`services[${index}]`, 'a host name such as orders.shop', host);
  });
}

function checked(told: unknown): boolean | undefined {
  // A promise is truthy.
  if (told === undefined || typeof told === 'boolean') return told;
  throw optionError('services()', 'a function that returns true, false or undefined', told);
}

/** `orders.shop.` in a URL means `orders.shop`; as a separate name it could only be a host on the internet. */
function withoutDot(hostname: string): string {
  return /^[^.]+\.[^.]+(\.svc)?\.$/i.test(hostname) ? hostname.slice(0, -1) : hostname;
}
