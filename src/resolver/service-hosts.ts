import { asError } from '../errors.js';
import { orAborted } from '../runtime/abort-listeners.js';
import { optionError } from '../runtime/check.js';
import { type Clock, inBackground, type Timer } from '../runtime/clock.js';
import { deadline } from '../runtime/deadline.js';
import { withoutTrailing } from '../runtime/without-trailing.js';
import { absoluteName, type ClusterNames, clusterNames, parseServiceHost, plainName } from './cluster-domain.js';
import { type DnsSettings, resolveDnsOptions } from './dns.js';
import type { DnsClient } from './dns-client.js';
import { lookUp } from './dns-lookup.js';
import { lookupFamilies } from './host-families.js';
import { HostsFile } from './hosts-file.js';

/** Decides which hosts are Services: a list of host names, or a function. If the function returns undefined for a host, DNS decides. */
export type ServiceRule = readonly string[] | ((origin: URL) => boolean | undefined);

/** Options of `ServiceHosts`. */
export interface ServiceHostsOptions {
  /** Which hosts are Services. @defaultValue DNS decides for every host */
  readonly services?: ServiceRule | undefined;
  /** How DNS is queried. @defaultValue {}, see `DnsSettings` */
  readonly dns?: DnsSettings | undefined;
  /** How long one DNS lookup may take, in ms, above 0. */
  readonly lookupTimeoutMs: number;
  /** The clock by which hosts are looked up again. */
  readonly clock: Clock;
}

/** What `ServiceHosts` knows about one host. */
export interface ServiceHostSnapshot {
  /** The full name that was queried in DNS for the host. */
  readonly name: string;
  /** Whether the host is a Service; undefined while the first lookup is running. */
  readonly service: boolean | undefined;
  /** Why DNS could not tell whether the host is a Service, or was not asked. */
  readonly trouble?: string;
}

interface Known {
  verdict: boolean | undefined;
  /** Whether the two labels of the name also are a pod of this pod's own namespace: `web-0.web`. */
  isPod: boolean;
  trouble: string | undefined;
  /** When a host that is not a Service may be looked up again, on the clock in ms. */
  recheckAtMs: number;
  lookup: Promise<void> | undefined;
}

/** How long it is remembered that a host is not a Service, in ms. After that it is looked up again. */
const NEGATIVE_MS = 30_000;
/** How often those who wait for a host to become a Service look whether it has, in ms; DNS is asked as seldom as for anybody. */
const WAIT_MS = 10_000;
/** How long a host is not looked up again after DNS gave no answer for it, in ms. */
const TROUBLE_MS = 5_000;
/**
 * The DNS domain of Services that are shared by several clusters (KEP-1645). Only the name servers of a cluster know names in it, so they
 * can be trusted like those of the cluster's own domain.
 */
const CLUSTER_SET_DOMAIN = 'clusterset.local';
/** How many hosts are remembered. When there are more, the oldest are forgotten, those that are not Services first. */
const MAX_KNOWN = 2_000;
/** How many lookups may run at the same time. Meanwhile, further unknown hosts are treated as no Services. */
const MAX_ASKING = 100;
/**
 * How long the first attempt of a DNS query may take, in ms. The second takes twice that, so both fit into the default timeout of a
 * lookup.
 */
const FIRST_TRY_MS = 600;

/**
 * Finds out which hosts are Services of the cluster. A host such as `orders.shop` is a Service if the DNS name `orders.shop.svc.<cluster
 * domain>.` exists. A name that ends in `.svc` or `.svc.<domain>` is queried as it is, but only if the domain is the cluster's own or
 * `clusterset.local`; in any other domain, its owner could make any name look like a Service. IP addresses, `localhost` and longer names
 * are never queried. Outside of a cluster only names that end in `.svc` or `.svc.<domain>` are queried, because `orders.shop` might be a
 * host on the internet there. `web-0.web` is left alone if the headless Service `web` of the own namespace has a pod `web-0`: a search list
 * begins with the own namespace.
 *
 * There is one lookup for each host, which all requests share, and only if a request needs it. That a host is a Service is remembered until
 * `forget` is called. Names in `/etc/hosts` are left to it, unless the option `services` names them. That a host is not a Service is
 * remembered for 30 s, and then checked again in the background. If DNS gives no answer, the host does not count as a Service, and is looked
 * up again 5 s later.
 */
export class ServiceHosts {
  readonly #clock: Clock;
  readonly #lookupTimeoutMs: number;
  readonly #dns: ReturnType<typeof resolveDnsOptions>;
  readonly #rule: ServiceRule | undefined;
  readonly #known = new Map<string, Known>();
  readonly #hostsFile: HostsFile;
  /** The hosts, as they are written, that would have been looked up if they were not in the hosts file. */
  readonly #inHostsFile = new Set<string>();
  /** Functions that each end a running DNS lookup. */
  readonly #questions = new Set<AbortController>();
  /** The cluster's domain and namespace, once they have been read. */
  #names: ClusterNames | undefined;
  #reading: Promise<void> | undefined;
  /** The full names of the hosts in the option `services`, once the cluster's domain and namespace are known. */
  #listed: ReadonlySet<string> | undefined;
  #closed = false;

  /** Throws EVENKEEL_OPTION for invalid options. */
  constructor({ services, dns = {}, lookupTimeoutMs, clock }: ServiceHostsOptions) {
    if (services !== undefined && typeof services !== 'function') checkHosts(services);
    this.#rule = services;
    this.#dns = resolveDnsOptions({ timeoutMs: FIRST_TRY_MS, ...dns, host: 'service', port: 80 });
    this.#lookupTimeoutMs = lookupTimeoutMs;
    this.#clock = clock;
    this.#hostsFile = new HostsFile(clock, this.#dns.clusterFiles);
  }

  /**
   * Whether the host of `origin` is a Service. If a promise is returned, it never rejects, and settles within the timeout. Throws if the
   * function in the option `services` throws.
   */
  isService(origin: URL): boolean | Promise<boolean> {
    const ruled = typeof this.#rule === 'function' ? checked(this.#rule(origin)) : undefined;
    if (this.#closed || ruled === false) return false;
    const isOpen = ruled === undefined && typeof this.#rule !== 'object';
    if (isOpen && parseServiceHost(withoutDot(origin.hostname)) === undefined) return false;
    // The cluster's domain and namespace are needed in any case, to tell which Service the host is.
    return this.#names === undefined
      ? this.#read().then(() => this.#decide(origin, ruled))
      : this.#decide(origin, ruled);
  }

  /**
   * Calls `found` once the host of `origin`, which was none at the last look, is a Service: it may be created after those who call it, and
   * DNS may be away while they start. Returns the function that ends the wait.
   */
  whenService(origin: URL, found: () => void): () => void {
    let timer: Timer | undefined;
    const wait = (): void => {
      timer = this.#clock.timer(look, WAIT_MS);
    };
    const look = (): void => {
      let verdict: boolean | Promise<boolean>;
      try {
        verdict = this.isService(origin);
      } catch {
        return; // The application's function: its next request tells it.
      }
      if (verdict === true) found();
      else if (!this.#closed) wait();
    };
    if (this.#mayBecome(origin)) inBackground(wait);
    return () => timer?.cancel();
  }

  /**
   * Returns the full name of a Service's host. All ways to write the host of one Service result in the same name. It may only be called
   * for hosts that `isService` has found to be Services.
   */
  nameOf({ hostname }: { readonly hostname: string }): string {
    return absoluteName(withoutDot(hostname), this.#cluster);
  }

  /** Forgets what is known about a Service, so that it is looked up again when it is needed next. */
  forget(name: string): void {
    this.#known.delete(name);
  }

  /** Returns every host known so far and whether it is a Service, as plain JSON. */
  snapshot(): ServiceHostSnapshot[] {
    const left = [...this.#inHostsFile].map((name) => ({ name, service: false, trouble: 'it is in /etc/hosts' }));
    const known = [...this.#known].map(([name, { verdict, trouble, isPod }]) => {
      const why = isPod ? `${shortName(name)} is a pod of this namespace, and left alone` : trouble;
      return { name, service: verdict, ...(why !== undefined && { trouble: why }) };
    });
    return [...left, ...known];
  }

  /** Ends all lookups. Callers that wait for one are told that their host is not a Service. */
  close(): void {
    this.#closed = true;
    for (const limit of this.#questions) limit.abort(new Error('closed'));
    this.#known.clear();
  }

  #decide(origin: URL, ruled: true | undefined): boolean | Promise<boolean> {
    if (ruled === true) return true;
    if (this.#listed !== undefined) return this.#listed.has(this.nameOf(origin));
    const { namespace } = this.#cluster;
    const inCluster = namespace !== undefined || this.#dns.clusterDomain !== undefined;
    const name = plainName(withoutDot(origin.hostname), this.#cluster, inCluster);
    const service = parseServiceHost(name);
    if (service !== undefined && this.#hostsFile.has(origin.hostname)) {
      if (this.#inHostsFile.size < MAX_KNOWN) this.#inHostsFile.add(origin.hostname);
      return false;
    }
    this.#inHostsFile.delete(origin.hostname);
    const isOurs = service?.domain === bareDomain(this.#cluster.domain) || service?.domain === CLUSTER_SET_DOMAIN;
    return !isOurs || this.#closed ? false : this.#lookUp(name, withoutDot(origin.hostname) === shortName(name));
  }

  #mayBecome({ hostname }: URL): boolean {
    if (typeof this.#rule === 'object') return false;
    return typeof this.#rule === 'function' || parseServiceHost(withoutDot(hostname)) !== undefined;
  }

  get #cluster(): ClusterNames {
    return this.#names ?? { domain: 'cluster.local', namespace: undefined };
  }

  #read(): Promise<void> {
    this.#reading ??= Promise.all([clusterNames(this.#dns), this.#hostsFile.read()]).then(([names]) => {
      this.#names = names;
      if (typeof this.#rule !== 'object') return;
      this.#listed = new Set(this.#rule.map((hostname) => this.nameOf({ hostname: hostname.toLowerCase() })));
    });
    return this.#reading;
  }

  /** @param isShort Whether the host is written without `.svc`, so that it may also be the name of a pod. */
  #lookUp(name: string, isShort: boolean): boolean | Promise<boolean> {
    let known = this.#known.get(name);
    if (known?.verdict === true) return !(isShort && known.isPod);
    if (known?.verdict === false && this.#clock.now() < known.recheckAtMs) return false;
    if (known === undefined) {
      if (this.#questions.size >= MAX_ASKING) return false;
      known = { verdict: undefined, isPod: false, trouble: undefined, recheckAtMs: 0, lookup: undefined };
      this.#remember(name, known);
    }
    const entry = known;
    if (entry.lookup === undefined && this.#questions.size < MAX_ASKING) {
      // The lookup serves many requests, so it must not run in the async context of the first one, where tracing would count it as part
      // of that request.
      entry.lookup = inBackground(() => this.#queryDns(name, entry));
    }
    // If the host was no Service in an earlier lookup, callers get that answer at once while it is looked up again.
    if (entry.verdict === false || entry.lookup === undefined) return false;
    return entry.lookup.then(() => entry.verdict === true && !(isShort && entry.isPod));
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

  async #queryDns(name: string, known: Known): Promise<void> {
    let client: DnsClient | undefined;
    const limit = new AbortController();
    this.#questions.add(limit);
    const silent = (): void => limit.abort(new Error(`DNS is silent about ${name}`));
    const timer = deadline(this.#clock, silent, this.#lookupTimeoutMs);
    // Requests wait for the first lookup of a host, so that one keeps the process alive. Later ones do not.
    if (known.verdict === undefined) timer.ref();
    try {
      client = this.#dns.client();
      const isService = await exists(client, name, limit.signal);
      const podName = isService ? this.#podName(name) : undefined;
      known.isPod = podName !== undefined && (await exists(client, podName, limit.signal));
      known.verdict = isService;
      known.trouble = undefined;
      known.recheckAtMs = this.#clock.now() + NEGATIVE_MS;
    } catch (error) {
      client?.cancel();
      known.verdict ??= false;
      known.trouble = asError(error).message;
      known.recheckAtMs = this.#clock.now() + TROUBLE_MS;
    }
    timer.cancel();
    this.#questions.delete(limit);
    known.lookup = undefined;
  }

  /** The name that a search list makes first of the two labels of a Service's name: that of a pod in the own namespace. */
  #podName(name: string): string | undefined {
    const { domain, namespace } = this.#cluster;
    const isOurs = namespace !== undefined && name.endsWith(`.svc.${bareDomain(domain)}.`);
    return isOurs ? `${shortName(name)}.${namespace}.svc.${bareDomain(domain)}.` : undefined;
  }
}

/** Whether DNS has addresses for the name. Rejects if it gives no answer. */
async function exists(client: DnsClient, name: string, signal: AbortSignal): Promise<boolean> {
  const question = { name, port: 1, srv: undefined, families: lookupFamilies() };
  return (await orAborted(lookUp(client, question), signal)).targets.length > 0;
}

/** The first two labels of the full name of a Service. */
function shortName(name: string): string {
  return name.split('.', 2).join('.');
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
  // A function of the application may return a promise by mistake. A promise counts as true in JavaScript, so it is rejected here.
  if (result === undefined || typeof result === 'boolean') return result;
  throw optionError('services()', 'a function that returns true, false or undefined', result);
}

/**
 * Removes the trailing dot of a host name. `orders.shop.` in a URL means the same as `orders.shop`; if the dot stayed, DNS would look for
 * the name on the internet.
 */
function withoutDot(hostname: string): string {
  return /^[^.]+\.[^.]+(\.svc)?\.$/i.test(hostname) ? hostname.slice(0, -1) : hostname;
}
