import { isIP } from 'node:net';
import { createEndpoint, type Endpoint } from '../endpoint/endpoint.js';
import {
  type AllowAddresses,
  allowAddressesOption,
  describeRefused,
  filterUnsafe,
  type UnsafeAddressClass,
} from '../endpoint/unsafe-address.js';
import { ResolveError } from '../errors.js';
import { notify } from '../observe/observer.js';
import { checkKeys, checkPort, checkString, optionError } from '../runtime/check.js';
import type { Filled } from '../runtime/complete.js';
import {
  checkedOption,
  choiceOption,
  functionOption,
  numberOption,
  type OptionTable,
  optionTable,
  requiredOption,
} from '../runtime/options.js';
import {
  absoluteName,
  type ClusterFiles,
  checkHost,
  clusterNames,
  isLocalhost,
  parseServiceHost,
} from './cluster-domain.js';
import { checkServers, type DnsClient, type DnsClientFactory, nodeDnsClient } from './dns-client.js';
import { type DnsFound, lookUp } from './dns-lookup.js';
import { lookupFamilies } from './host-families.js';
import { polling } from './polling.js';
import type { Resolver, ResolverContext } from './resolver.js';
import { staticEndpoints } from './static.js';

/** The options of DNS lookups that apply to any name: which name servers to query, how patiently and how often. */
export interface DnsSettings {
  /** The name servers to query, as `ip` or `ip:port`. @defaultValue those of the machine */
  readonly servers?: readonly string[] | undefined;
  /**
   * How long the first attempt of a query may take, in ms. Each further attempt may take twice as long as the one before. @defaultValue
   * 2000
   */
  readonly timeoutMs?: number | undefined;
  /** How many attempts are made at each name server for one query. @defaultValue 2 */
  readonly tries?: number | undefined;
  /** How long a whole lookup may take, with all its queries and attempts, in ms. @defaultValue 5000 */
  readonly deadlineMs?: number | undefined;
  /**
   * The time between two lookups if the answer does not say how long it is valid, in ms. It is from 1 s to 30 s, and so is the time in an
   * answer. @defaultValue 5000
   */
  readonly intervalMs?: number | undefined;
  /**
   * If DNS says that a name does not exist, the set is emptied only if a second answer says the same at least this much later, in ms: a
   * single such answer may come from a name server that has just started. 0 means that the first answer is enough. @defaultValue 5000
   */
  readonly emptyAgreementMs?: number | undefined;
  /**
   * Kinds of addresses to accept although no pod can have them, such as `['loopback']` in tests. The other kinds are `link-local`,
   * `multicast`, `unspecified`, and `metadata` for the metadata services of cloud providers (fd00:ec2::/32, 100.100.100.200 and others).
   * Without this option such addresses are refused, even if an IPv6 address contains them (NAT64, 6to4 and others). @defaultValue []
   */
  readonly allowAddresses?: AllowAddresses | undefined;
  /** The DNS domain of the cluster. @defaultValue the one in resolv.conf, otherwise 'cluster.local' */
  readonly clusterDomain?: string | undefined;
  /** The namespace of a Service whose name is given without one. @defaultValue the namespace of this pod */
  readonly namespace?: string | undefined;
  /** The files from which the defaults of `clusterDomain` and `namespace` are read: those of a pod, except in evenkeel's own tests. @internal */
  readonly clusterFiles?: ClusterFiles | undefined;
  /**
   * Creates the client that queries the name servers. For tests, or to query DNS in another way. @defaultValue `promises.Resolver` of
   * node:dns
   */
  readonly client?: DnsClientFactory | undefined;
}

/**
 * Options of `dns`: which name and port to look up, and how. They are fixed once the resolver is created; an invalid one throws
 * EVENKEEL_OPTION.
 */
export interface DnsOptions extends DnsSettings {
  /**
   * The name to look up. `orders.shop` and `orders.shop.svc` are completed with the cluster's domain, and `orders` with the namespace of
   * this pod, too. Longer names, and names with a trailing dot, are used as they are. For an IP address or `localhost`, DNS is not queried.
   */
  readonly host: string;
  /**
   * The port of every address that is found. It must be given unless `srv` is. Together with `srv`, it is used if the SRV records are too
   * many for one DNS message. @defaultValue none
   */
  readonly port?: number | undefined;
  /**
   * The name of a port. If given, SRV records are queried, which contain the pods and their port. @defaultValue none: addresses are
   * queried
   */
  readonly srv?: string | undefined;
  /**
   * The only family of addresses to use. @defaultValue the one that this host has, or IPv4 if it has both; the other one if the name has
   * no address of it
   */
  readonly family?: 4 | 6 | undefined;
}

type ResolvedDnsSettings = Filled<DnsSettings, 'servers' | 'clusterDomain' | 'namespace' | 'client'>;

const ms = { min: 1, max: 600_000 };
const hostOption = checkedOption<string | undefined>(undefined, checkHost);

export const dnsSettingsTable: OptionTable<ResolvedDnsSettings> = optionTable('dns', {
  servers: checkedOption<readonly string[] | undefined>(undefined, (_name, value) => checkServers(value)),
  timeoutMs: numberOption(2_000, { ...ms, integer: true }),
  tries: numberOption(2, { min: 1, max: 10, integer: true }),
  deadlineMs: numberOption(5_000, ms),
  intervalMs: numberOption(5_000, { min: 1_000, max: 30_000 }),
  emptyAgreementMs: numberOption(5_000, { min: 0, max: 600_000 }),
  allowAddresses: allowAddressesOption,
  clusterDomain: hostOption,
  namespace: hostOption,
  clusterFiles: checkedOption<ClusterFiles>({}, (name, value) => {
    checkKeys(name, value, ['resolvConfPath', 'namespacePath', 'hostsPath']);
    return value as ClusterFiles;
  }),
  client: functionOption<DnsClientFactory>(),
});

export const dnsTable: OptionTable<
  ResolvedDnsSettings & Filled<Omit<DnsOptions, keyof DnsSettings>, 'port' | 'srv' | 'family'>
> = optionTable('dns', {
  host: requiredOption((name, value) => (isIP(value as string) === 0 ? checkHost(name, value) : (value as string))),
  port: checkedOption<number | undefined>(undefined, checkPort),
  srv: checkedOption<string | undefined>(undefined, checkPortName),
  family: choiceOption<4 | 6, undefined>(undefined, [4, 6]),
  ...dnsSettingsTable.options,
});

/**
 * Creates a resolver that finds the pods of a headless Service by querying DNS repeatedly. It works for every name with several
 * addresses.
 *
 * @returns A resolver. Throws EVENKEEL_OPTION.
 * @example dns({ host: 'orders.shop', port: 8080 })
 * @example dns({ host: 'orders.shop', srv: 'http' }) // pod ports by the Service's port name
 */
export function dns(options: DnsOptions): Resolver {
  const question = resolveDnsOptions(options);
  const { host, port, srv } = question;
  const name = srv === undefined ? `dns ${host}:${port}` : `dns ${srv} of ${host}`;
  const literal = literalAddress(host, question.family);
  if (literal !== undefined) {
    if (port === undefined) throw optionError('port', `a port from 1 to 65535 where host is ${host}`, port);
    return { ...staticEndpoints([{ address: literal, port }]), name };
  }
  return dnsPolling(name, question, (found) => found.targets.map((target) => createEndpoint(target)));
}

/** The options of `dns` with all default values filled in. */
export interface ResolvedDnsOptions
  extends Omit<(typeof dnsTable)['defaults'], 'servers' | 'timeoutMs' | 'tries' | 'client'> {
  readonly client: DnsClientFactory;
}

/** Checks the options of `dns` and fills in default values. Throws EVENKEEL_OPTION. */
export function resolveDnsOptions(options: DnsOptions): ResolvedDnsOptions {
  const { servers, timeoutMs, tries, ...resolved } = dnsTable.resolve(options);
  const { port, srv, client = () => nodeDnsClient({ servers, timeoutMs, tries }) } = resolved;
  if (port === undefined && srv === undefined) {
    throw optionError('port', 'a port from 1 to 65535 unless srv is given', port);
  }
  return { ...resolved, client };
}

/** Checks the name of a Service's port by the rules of Kubernetes. Throws EVENKEEL_OPTION. */
function checkPortName(name: string, value: unknown): string {
  const text = checkString(name, value);
  if (!/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/i.test(text)) throw optionError(name, 'the name of a port', value);
  return text.toLowerCase();
}

/** Returns the address of a host that needs no query: an IP address, or `localhost`, which is 127.0.0.1 unless `family` is 6. */
export function literalAddress(host: string, family: 4 | 6 | undefined): string | undefined {
  if (isIP(host) !== 0) return host;
  if (isLocalhost(host)) return family === 6 ? '::1' : '127.0.0.1';
  return undefined;
}

/** Creates a resolver that queries DNS repeatedly. `endpointsOf` converts each result to endpoints. */
export function dnsPolling(
  name: string,
  options: ResolvedDnsOptions,
  endpointsOf: (
    found: DnsFound,
    client: DnsClient,
    absolute: string,
  ) => readonly Endpoint[] | Promise<readonly Endpoint[]>,
): Resolver {
  return polling({
    name,
    intervalMs: options.intervalMs,
    timeoutMs: options.deadlineMs,
    emptyAgreementMs: options.emptyAgreementMs,
    open: (context) => {
      const query = new NameQuery(name, options, context);
      return async (signal) => {
        const { found, client, absolute } = await query.run(signal);
        const detail = nothingFound(absolute, options.srv);
        return { endpoints: await endpointsOf(found, client, absolute), validForMs: found.ttlMs, detail };
      };
    },
  });
}

function nothingFound(absolute: string, srv: string | undefined): string {
  const records = srv === undefined ? 'address' : `SRV record ${srv}`;
  const nothing = `DNS has no ${records} for ${absolute}`;
  const service = parseServiceHost(absolute);
  if (service === undefined) return nothing;
  // DNS gives the same answer whether the Service, its namespace or its ready pods are missing, so the message names all of them.
  const which = `is the namespace ${service.namespace} right?`;
  return `${nothing}: there is no such Service, or none of its pods is ready; ${which}`;
}

/** The DNS queries of one watch. It finds out the full name once, and creates a new client after a failure. */
class NameQuery {
  readonly #name: string;
  readonly #options: ResolvedDnsOptions;
  readonly #context: ResolverContext;
  readonly #families: readonly (4 | 6)[];
  #client: DnsClient | undefined;
  #absolute: string | undefined;
  #lastPort: number | undefined;
  #reportedRefusal = '';

  constructor(name: string, options: ResolvedDnsOptions, context: ResolverContext) {
    this.#name = name;
    this.#options = options;
    this.#context = context;
    this.#families = lookupFamilies(options.family);
  }

  async run(signal: AbortSignal): Promise<{ found: DnsFound; client: DnsClient; absolute: string }> {
    this.#absolute ??= await this.#absoluteName();
    signal.throwIfAborted();
    this.#client ??= this.#options.client();
    const client = this.#client;
    const cancel = (): void => client.cancel();
    signal.addEventListener('abort', cancel, { once: true });
    try {
      const question = { ...this.#options, name: this.#absolute, families: this.#families };
      const found = await lookUp(client, question, this.#lastPort);
      const ports = new Set(found.targets.map((target) => target.port));
      if (ports.size === 1) [this.#lastPort] = ports;
      return { found: this.#safe(found), client, absolute: this.#absolute };
    } catch (error) {
      this.#client = undefined;
      throw error;
    } finally {
      signal.removeEventListener('abort', cancel);
    }
  }

  async #absoluteName(): Promise<string> {
    const { host, clusterDomain, namespace, clusterFiles } = this.#options;
    const parsed = parseServiceHost(host);
    const complete = parsed === undefined || parsed.domain !== undefined;
    if (complete) return absoluteName(host, { domain: '', namespace });
    return absoluteName(host, await clusterNames({ clusterDomain, namespace, clusterFiles }));
  }

  #safe(found: DnsFound): DnsFound {
    const { allowed, refused } = filterUnsafe(found.targets, ({ address }) => address, this.#options.allowAddresses);
    if (refused.length === 0) {
      this.#reportedRefusal = '';
      return found;
    }
    const message = describeRefused(this.#name, refused);
    // All addresses in the answer were refused. That is not the same as "no such name", so the last set stays in use.
    if (allowed.length === 0) throw new ResolveError(message);
    const kinds = refusedKinds(refused);
    if (kinds !== this.#reportedRefusal) notify(this.#context.observer, 'warned', { message });
    this.#reportedRefusal = kinds;
    return { ...found, targets: allowed };
  }
}

/**
 * Lists the kinds of refused addresses, for a warning that is reported once per kind. The addresses themselves may differ in every
 * answer.
 */
function refusedKinds(refused: readonly { readonly class: UnsafeAddressClass }[]): string {
  return [...new Set(refused.map((entry) => entry.class))].sort().join();
}
