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

/** Which hosts are Services: a fixed list, or a function; where the function returns undefined, DNS decides. */
export type ServiceRule = readonly string[] | ((origin: URL) => boolean | undefined);

/** The parameters of `ServiceHosts`. */
export interface ServiceHostsOptions {
  /** Which hosts are Services. @defaultValue DNS decides about every host */
  readonly services?: ServiceRule | undefined;
  /** How DNS is asked. @defaultValue {}, see `DnsSettings` */
  readonly dns?: DnsSettings | undefined;
  /** How long one DNS lookup may take, in ms, above 0. */
  readonly lookupTimeoutMs: number;
  /** Determines when a host is looked up again. */
  readonly clock: Clock;
}

/** What is known about one host. */
export interface ServiceHostSnapshot {
  /** The absolute name that was queried. */
  readonly name: string;
  /** Whether the host is a Service; undefined during the first lookup. */
  readonly service: boolean | undefined;
  /** Why DNS could not answer. */
  readonly trouble?: string;
}

interface Known {
  verdict: boolean | undefined;
  trouble: string | undefined;
  /** When a "no" may be checked again. */
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
/** Time for the first try; the second takes twice that, so that both fit into the default time-out. */
const FIRST_TRY_MS = 600;

/**
 * Tells Services from other hosts. A host is a Service if `<host>.svc.<cluster domain>.` exists. Names that end in `.svc` or
 * `.svc.<domain>` are queried as they are if the domain is the cluster's own or `clusterset.local`; under any other domain, its owner
 * could create any number of Services. IP addresses, `localhost` and longer names are not queried. Outside a cluster only the latter
 * two forms are, because nothing there says that `orders.shop` is not on the internet.
 *
 * One lookup per host, shared by all callers. A "no" is believed for 30 s, then checked again in the background; a "yes" until it is
 * forgotten. If DNS gives no answer, the host does not count as a Service, and is looked up again 5 s later. Never looks up by
 * itself.
 */
export class ServiceHosts {
  readonly #clock: Clock;
  readonly #lookupTimeoutMs: number;
  readonly #dns: ReturnType<typeof resolveDnsOptions>;
  readonly #rule: ServiceRule | undefined;
  readonly #known = new Map<string, Known>();
  /** Functions that cancel the running lookups. */
  readonly #questions = new Set<() => void>();
  /** How short names are completed, once read. */
  #names: ClusterNames | undefined;
  #reading: Promise<void> | undefined;
  /** The absolute names of the list, once the cluster's names are known. */
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
   * Whether the host of `origin` is a Service. A returned promise never rejects, and settles within the time-out. Throws what the
   * user's function throws.
   */
  judge(origin: URL): boolean | Promise<boolean> {
    const ruled = typeof this.#rule === 'function' ? checked(this.#rule(origin)) : undefined;
    if (this.#closed || ruled === false) return false;
    const isOpen = ruled === undefined && typeof this.#rule !== 'object';
    if (isOpen && parseServiceHost(withoutDot(origin.hostname)) === undefined) return false;
    // The names are needed for a "yes" too, to tell which Service it is.
    return this.#names === undefined
      ? this.#read().then(() => this.#decide(origin, ruled))
      : this.#decide(origin, ruled);
  }

  /** The absolute name of a host: the same for all spellings of a Service. Only for hosts judged to be Services. */
  nameOf({ hostname }: { readonly hostname: string }): string {
    return absoluteName(withoutDot(hostname), this.#cluster);
  }

  /** Forgets a Service, so that it is looked up again when next needed. */
  forget(name: string): void {
    this.#known.delete(name);
  }

  /** Every host asked about so far and what was found, as plain JSON. */
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
    // After an earlier "no", callers do not wait to hear it again.
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
    // Callers wait for the first answer, but not for later ones.
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
  // A promise is truthy, so it must not be taken for a "yes".
  if (result === undefined || typeof result === 'boolean') return result;
  throw optionError('services()', 'a function that returns true, false or undefined', result);
}

/** `orders.shop.` in a URL means `orders.shop`; as a separate name it could only be a host on the internet. */
function withoutDot(hostname: string): string {
  return /^[^.]+\.[^.]+(\.svc)?\.$/i.test(hostname) ? hostname.slice(0, -1) : hostname;
}
