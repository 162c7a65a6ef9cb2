import { promises as fs } from 'node:fs';
import { isIP } from 'node:net';
import { optionError } from '../runtime/check.js';

/** The files from which a pod learns its cluster's domain and its namespace. Other paths than the usual ones are for tests. */
export interface ClusterFiles {
  /** The path of a resolv.conf; the cluster's domain is in its search list. @defaultValue '/etc/resolv.conf' */
  readonly resolvConfPath?: string;
  /**
   * The path of a file with the namespace of this pod, which is used for Services named without one. @defaultValue
   * '/var/run/secrets/kubernetes.io/serviceaccount/namespace'
   */
  readonly namespacePath?: string;
  /** The path of a hosts file; names in it are not Services. @defaultValue '/etc/hosts' */
  readonly hostsPath?: string;
}

/** What is needed to complete a short name of a Service, such as `orders`, to a full DNS name. */
export interface ClusterNames {
  /** The DNS domain of the cluster without leading or trailing dots, such as `cluster.local`. */
  readonly domain: string;
  /** The namespace of this pod; undefined if it is unknown, as outside of a pod. */
  readonly namespace: string | undefined;
}

/** The parts of a host name that may be the name of a Service. */
export interface ServiceHost {
  readonly service: string;
  /** The namespace in the host name; undefined means the namespace of this pod. */
  readonly namespace: string | undefined;
  /** The domain in the host name; undefined means the domain of this cluster. */
  readonly domain: string | undefined;
}

const DEFAULT_DOMAIN = 'cluster.local';

/** The options among `DnsSettings` that decide how short names of Services are completed. */
export interface ClusterSettings {
  readonly clusterDomain?: string | undefined;
  readonly namespace?: string | undefined;
  readonly clusterFiles?: ClusterFiles | undefined;
}

/** Returns the domain and namespace in the settings. What the settings leave out is read from this pod's files. Never rejects. */
export async function clusterNames(settings: ClusterSettings): Promise<ClusterNames> {
  const { clusterDomain, namespace, clusterFiles } = settings;
  if (clusterDomain !== undefined && namespace !== undefined) return { domain: clusterDomain, namespace };
  const read = await readClusterNames(clusterFiles);
  return { domain: clusterDomain ?? read.domain, namespace: namespace ?? read.namespace };
}

/** Reads the domain and namespace from this pod's files. A file that cannot be read counts as absent. Never rejects. */
export async function readClusterNames(files: ClusterFiles = {}): Promise<ClusterNames> {
  const {
    resolvConfPath = '/etc/resolv.conf',
    namespacePath = '/var/run/secrets/kubernetes.io/serviceaccount/namespace',
  } = files;
  const read = (path: string): Promise<string> => fs.readFile(path, 'utf8').catch(() => '');
  const [resolvConf, namespaceFile] = await Promise.all([read(resolvConfPath), read(namespacePath)]);
  const search = searchList(resolvConf);
  const domain = search.find((entry) => entry.startsWith('svc.'))?.slice('svc.'.length);
  // Kubernetes writes a search list of the form `<namespace>.svc.<domain> svc.<domain> <domain> …`.
  const own = search.find((entry) => domain !== undefined && entry.endsWith(`.svc.${domain}`));
  const namespace = namespaceFile.trim() || own?.slice(0, own.indexOf('.'));
  return { domain: domain ?? DEFAULT_DOMAIN, namespace: namespace || undefined };
}

/** Returns the `search` list of a resolv.conf. If there are several, the last one counts, as in resolv.conf(5). */
export function searchList(resolvConf: string): readonly string[] {
  let entries: string[] = [];
  for (const line of resolvConf.split('\n')) {
    const [keyword, ...rest] = line.trim().split(/\s+/);
    if (keyword === 'search' || keyword === 'domain') {
      entries = rest.map((entry) => entry.toLowerCase().replace(/\.$/, ''));
    }
  }
  return entries;
}

/**
 * Reads a host name as the name of a Service: `orders`, `orders.shop`, `orders.shop.svc` or `orders.shop.svc.<domain>`. Returns undefined
 * for IP addresses, `localhost`, names with a trailing dot (`github.com.`), and everything else.
 */
export function parseServiceHost(host: string): ServiceHost | undefined {
  const name = host.toLowerCase();
  const absolute = name.endsWith('.');
  const labels = (absolute ? name.slice(0, -1) : name).split('.');
  const [service, namespace, svc, ...domain] = labels;
  if (service === undefined || isIP(host) !== 0 || isLocalhost(host) || !labels.every(isLabel)) return undefined;
  if (svc === 'svc' && (domain.length > 0 || !absolute)) {
    return { service, namespace, domain: domain.length > 0 ? domain.join('.') : undefined };
  }
  return labels.length <= 2 && !absolute ? { service, namespace, domain: undefined } : undefined;
}

/** Returns the Service of this cluster that a host name stands for; undefined if it stands for none. */
export function serviceOf(
  host: string,
  names: ClusterNames,
): { readonly service: string; readonly namespace: string | undefined } | undefined {
  const parsed = parseServiceHost(host);
  if (parsed === undefined || (parsed.domain !== undefined && parsed.domain !== names.domain)) return undefined;
  return { service: parsed.service, namespace: parsed.namespace ?? names.namespace };
}

/**
 * Returns the full name to query in DNS for a host name, with a trailing dot. A name with one or two parts, or one that ends in `.svc`,
 * is completed to the name of a Service. All other names are used as they are, and so are names with a trailing dot, and a single part if
 * the namespace is unknown.
 */
export function absoluteName(host: string, names: ClusterNames): string {
  const name = host.toLowerCase();
  if (name.endsWith('.')) return name;
  const parsed = parseServiceHost(name);
  const namespace = parsed?.namespace ?? names.namespace;
  if (parsed === undefined || namespace === undefined) return `${name}.`;
  return `${parsed.service}.${namespace}.svc.${parsed.domain ?? names.domain}.`;
}

/**
 * Returns the full name to query in DNS for a target such as `orders.shop:8080`. Outside a cluster nothing says that `orders.shop` is a
 * Service, so the name is queried as it is. Inside a cluster it is always completed to the name of a Service: otherwise, while the Service
 * has no ready pod and therefore no DNS name, an internet host with the same name might answer, because the domain `.shop` exists.
 */
export function plainName(host: string, names: ClusterNames, inCluster: boolean): string {
  const parsed = parseServiceHost(host);
  const asItStands = !inCluster && parsed?.domain === undefined && !/\.svc\.?$|\.$/.test(host);
  return asItStands ? `${host.toLowerCase()}.` : absoluteName(host, names);
}

/**
 * Whether a host name means this machine: `localhost` and all names that end in `.localhost` (RFC 6761 section 6.3). No name server is
 * queried for these.
 */
export function isLocalhost(host: string): boolean {
  return /^(.+\.)?localhost\.?$/i.test(host);
}

/** Checks that a value is a host name, and returns it in lower case. Throws EVENKEEL_OPTION. */
export function checkHost(name: string, value: unknown): string {
  if (typeof value !== 'string' || !isHostName(value)) throw optionError(name, 'a host name or an IP address', value);
  return value.toLowerCase();
}

/** Whether a text is a host name that DNS can be queried for. A trailing dot is allowed. */
export function isHostName(text: string): boolean {
  return text.length <= 254 && text.replace(/\.$/, '').split('.').every(isLabel);
}

// Whether a text may be one part of a host name. Underscores are officially forbidden there, but they occur in practice, and the names
// of SRV records need them.
function isLabel(label: string): boolean {
  return /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/i.test(label);
}
