import { asError } from '../errors.js';
import { optionError } from '../runtime/check.js';
import { type Clock, inBackground } from '../runtime/clock.js';
import { deadline } from '../runtime/deadline.js';
import { withoutTrailing } from '../runtime/without-trailing.js';
import { absoluteName, type ClusterNames, clusterNames, parseServiceHost, plainName } from './cluster-domain.js';
import { type DnsSettings, resolveDnsOptions } from './dns.js';
import type { DnsClient } from './dns-client.js';
import { lookUp } from './dns-lookup.js';
import { lookupFamilies } from './host-families.js';

/** Which hosts are Services: a fixed list, or a function of the application; where the function returns undefined, DNS decides. */
export type ServiceRule = readonly string[] | ((origin: URL) => boolean | undefined);

/** The parameters of `ServiceHosts`. */
export interface ServiceHostsOptions {
  /** Which hosts are Services. @defaultValue DNS decides about every host */
  readonly services?: ServiceRule | undefined;
  /** How DNS is queried. @defaultValue {}, see `DnsSettings` */
  readonly dns?: DnsSettings | undefined;
  /** How long one DNS lookup may take, in ms, above 0. */
  readonly lookupTimeoutMs: number;
  /** The clock that determines when a host is looked up again. */
  readonly clock: Clock;
}

/** What `ServiceHosts` knows about one host. */
export interface ServiceHostSnapshot {
  /** The absolute name that was queried for the host. */
  readonly name: string;
  /** Whether the host is a Service; undefined during the first lookup. */
  readonly service: boolean | undefined;
  /** Why DNS could not tell whether the host is a Service. */
  readonly trouble?: string;
}

interface Known {
  verdict: boolean | undefined;
  trouble: string | undefined;
  /** When the verdict that the host is no Service may be checked again, on the clock in ms. */
  recheckAtMs: number;
  lookup: Promise<boolean> | undefined;
}

/** How long "no such Service" is believed, in ms. */
const NEGATIVE_MS = 30_000;
/** How long DNS is left alone after a lookup without an answer, in ms. */
const TROUBLE_MS = 5_000;
/** The domain for Services of several clusters (KEP-1645); only a cluster's name servers know it. */
const CLUSTER_SET_DOMAIN = 'clusterset.local';
/** How many hosts are remembered; the oldest are forgotten first, non-Services before Services. */
const MAX_KNOWN = 2_000;
/** How many lookups run at once. Further hosts are answered "no" meanwhile. */
const MAX_ASKING = 100;
/** Time for the first try of a DNS query, in ms; the second takes twice that, so that both fit into the default time-out. */
const FIRST_TRY_MS = 600;

/**
 * Tells Services from other hosts. Such a host is a Service if `<host>.svc.<cluster domain>.` exists. Names that end in `.svc` or
 * `.svc.<domain>` are queried as they are if the domain is the cluster's own or `clusterset.local`; under any other domain, its owner could
 * create any number of Services. IP addresses, `localhost` and longer names are not queried. Outside a cluster only names that end in
 * `.svc` or `.svc.<domain>` are queried, because nothing there says that `orders.shop` is not on the internet.
 *
 * One lookup per host, shared by all callers. A "no" is believed for 30 s, then checked again in the background; a "yes" until it is
 * forgotten. If DNS gives no answer, the host does not count as a Service, and is looked up again 5 s later. Nothing is looked up unless a
 * caller needs it.
 */
export class ServiceHosts {
  readonly #clock: Clock;
  readonly #lookupTimeoutMs: number;
  readonly #dns: ReturnType<typeof resolveDnsOptions>;
  readonly #rule: ServiceRule | undefined;
  readonly #known = new Map<string, Known>();
  /** Functions that cancel the running DNS lookups. */
  readonly #questions = new Set<() => void>();
  /** How short names of Services are completed, once the files that say so are read. */
  #names: ClusterNames | undefined;
  #reading: Promise<void> | undefined;
  /** The absolute names of the hosts in the option `services`, once the cluster's names are known. */
  #listed: ReadonlySet<string> | undefined;
  #closed = false;

  /** Throws EVENKEEL_OPTION for invalid options. */
  constructor({ services, dns = {}, lookupTimeoutMs, clock }: ServiceHostsOptions) {
    if (services !== undefined && typeof services !== 'function') checkHosts(services);
    this.#rule = services;
    this.#dns = resolveDnsOptions({ timeoutMs: FIRST_TRY_MS, ...dns, host: 'service', port: 80 });
    this.#lookupTimeoutMs = lookupTimeoutMs;
    this.#clock = clock;
  }

  /**
   * Whether the host of `origin` is a Service. A returned promise never rejects, and settles within the time-out. Throws what the
   * user's function throws.
   */
  judge(origin: URL): boolean | Promise<boolean> {
    const ruled = typeof this.#rule === 'function' ? checked(this.#rule(origin)) : undefined;
    if (this.#closed || ruled === false) return false;
    const isOpen = ruled === undefined && typeof this.#rule !== 'object';
    if (isOpen && parseServiceHost(withoutDot(origin.hostname)) === undefined) return false;
    // The cluster's names are needed even if a host is a Service, to tell which Service it is.
    return this.#names === undefined
      ? this.#read().then(() => this.#decide(origin, ruled))
      : this.#decide(origin, ruled);
  }

  /**
   * The absolute name of a host: the same for all spellings of a Service. May only be called for hosts that `judge` found to be Services.
   */
  nameOf({ hostname }: { readonly hostname: string }): string {
    return absoluteName(withoutDot(hostname), this.#cluster);
  }

  /** Forgets a Service, so that it is looked up again when next needed. */
  forget(name: string): void {
    this.#known.delete(name);
  }

  /** Every host judged so far and what was found, as plain JSON. */
  snapshot(): ServiceHostSnapshot[] {
    return [...this.#known].map(([name, { verdict, trouble }]) => ({
      name,
      service: verdict,
      ...(trouble !== undefined && { trouble }),
    }));
  }

  /** Ends all lookups; waiting callers are told that their host is no Service. */
  close(): void {
    this.#closed = true;
    for (const callOff of this.#questions) callOff();
    this.#known.clear();
  }

  #decide(origin: URL, ruled: true | undefined): boolean | Promise<boolean> {
    if (ruled === true) return true;
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
    this.#reading ??= clusterNames(this.#dns).then((names) => {
      this.#names = names;
      if (typeof this.#rule !== 'object') return;
      this.#listed = new Set(this.#rule.map((hostname) => this.nameOf({ hostname: hostname.toLowerCase() })));
    });
    return this.#reading;
  }

  #lookUp(name: string): boolean | Promise<boolean> {
    let known = this.#known.get(name);
    if (known?.verdict === true) return true;
    if (known?.verdict === false && this.#clock.now() < known.recheckAtMs) return false;
    if (known === undefined) {
      if (this.#questions.size >= MAX_ASKING) return false;
      known = { verdict: undefined, trouble: undefined, recheckAtMs: 0, lookup: undefined };
      this.#remember(name, known);
    }
    if (known.lookup === undefined && this.#questions.size < MAX_ASKING) {
      const entry = known;
      // The lookup runs outside the async context of whichever request comes first.
      known.lookup = inBackground(() => this.#queryDns(name, entry));
    }
    // After an earlier verdict that the host is no Service, callers do not wait for the next lookup.
    return known.verdict ?? known.lookup ?? false;
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

  async #queryDns(name: string, known: Known): Promise<boolean> {
    let client: DnsClient | undefined;
    let callOff = (): void => {};
    const calledOff = new Promise<never>((_resolve, reject) => {
      callOff = () => reject(new Error(`DNS is silent about ${name}`));
    });
    this.#questions.add(callOff);
    const timer = deadline(this.#clock, callOff, this.#lookupTimeoutMs);
    // Callers wait for the first DNS lookup of a host, which therefore keeps the process alive, but not for later ones.
    if (known.verdict === undefined) timer.ref();
    try {
      client = this.#dns.client();
      const question = { name, port: 1, srv: undefined, families: lookupFamilies() };
      const { targets } = await Promise.race([lookUp(client, question), calledOff]);
      known.verdict = targets.length > 0;
      known.trouble = undefined;
      known.recheckAtMs = this.#clock.now() + NEGATIVE_MS;
    } catch (error) {
      client?.cancel();
      known.verdict ??= false;
      known.trouble = asError(error).message;
      known.recheckAtMs = this.#clock.now() + TROUBLE_MS;
    }
    timer.cancel();
    this.#questions.delete(callOff);
    known.lookup = undefined;
    return known.verdict;
  }
}

function bareDomain(domain: string): string {
  return withoutTrailing(domain.toLowerCase().replace(/^\.+/, ''), '.');
}

function checkHosts(value: unknown): void {
  if (!Array.isArray(value)) throw optionError('services', 'a list of host names or a function', value);
  value.forEach((host, index) => {
    if (typeof host === 'string' && /^[a-z0-9_.-]+$/i.test(host)) return;
    throw optionError(`services[${index}]`, 'a host name such as orders.shop', host);
  });
}

function checked(result: unknown): boolean | undefined {
  // A promise is truthy, so one from the application's function must not be taken for a "yes".
  if (result === undefined || typeof result === 'boolean') return result;
  throw optionError('services()', 'a function that returns true, false or undefined', result);
}

/**
 * A host name without its trailing dot. `orders.shop.` in a URL means `orders.shop`; as a separate name it could only be a host on the
 * internet.
 */
function withoutDot(hostname: string): string {
  return /^[^.]+\.[^.]+(\.svc)?\.$/i.test(hostname) ? hostname.slice(0, -1) : hostname;
}
