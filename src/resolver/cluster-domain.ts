import { promises as fs } from 'node:fs';
import { isIP } from 'node:net';
import { optionError } from '../runtime/check.js';

/** The files that tell what names a pod uses; other paths are for tests. */
export interface ClusterFiles {
  /** The path of a resolv.conf: its search list names the cluster's domain. @defaultValue '/etc/resolv.conf' */
  readonly resolvConfPath?: string;
  /**
   * The path of a file with the pod's own namespace, for Services named without one. @defaultValue
   * '/var/run/secrets/kubernetes.io/serviceaccount/namespace'
   */
  readonly namespacePath?: string;
}

/** How short names of Services are completed. */
export interface ClusterNames {
  /** The cluster's domain without leading or trailing dots, such as `cluster.local`. */
  readonly domain: string;
  /** Namespace of this pod; undefined if unknown (not in a pod). */
  readonly namespace: string | undefined;
}

/** The parts of a host that may name a Service. */
export interface ServiceHost {
  readonly service: string;
  /** The namespace in the host; undefined: this pod's. */
  readonly namespace: string | undefined;
  /** The domain in the host; undefined: this cluster's. */
  readonly domain: string | undefined;
}

const DEFAULT_DOMAIN = 'cluster.local';

/** The settings of `DnsSettings` that say how short names are completed. */
export interface ClusterSettings {
  readonly clusterDomain?: string | undefined;
  readonly namespace?: string | undefined;
  readonly clusterFiles?: ClusterFiles | undefined;
}

/** The names that the settings give, or this pod's files if the settings give none. Never rejects. */
export async function clusterNames(settings: ClusterSettings): Promise<ClusterNames> {
  const { clusterDomain, namespace, clusterFiles } = settings;
  if (clusterDomain !== undefined && namespace !== undefined) return { domain: clusterDomain, namespace };
  const read = await readClusterNames(clusterFiles);
  return { domain: clusterDomain ?? read.domain, namespace: namespace ?? read.namespace };
}

/** Reads this pod's files; an unreadable file counts as absent. Never rejects. */
export async function readClusterNames(files: ClusterFiles = {}): Promise<ClusterNames> {
  const {
    resolvConfPath = '/etc/resolv.conf',
    namespacePath = '/var/run/secrets/kubernetes.io/serviceaccount/namespace',
  } = files;
  const read = (path: string): Promise<string> => fs.readFile(path, 'utf8').catch(() => '');
  const [resolvConf, namespaceFile] = await Promise.all([read(resolvConfPath), read(namespacePath)]);
  const search = searchList(resolvConf);
  const domain = search.find((entry) => entry.startsWith('svc.'))?.slice('svc.'.length);
  // The kubelet writes `<namespace>.svc.<domain> svc.<domain> <domain> …`.
  const own = search.find((entry) => domain !== undefined && entry.endsWith(`.svc.${domain}`));
  const namespace = namespaceFile.trim() || own?.slice(0, own.indexOf('.'));
  return { domain: domain ?? DEFAULT_DOMAIN, namespace: namespace || undefined };
}

/** The `search` list of a resolv.conf; the last one counts (resolv.conf(5)). */
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
 * Reads a host as a Service name: `orders`, `orders.shop`, `orders.shop.svc` or `orders.shop.svc.<domain>`.
 * Undefined for IP addresses, `localhost`, absolute names (`github.com.`) and everything else.
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

/** The Service of this cluster that a host names; undefined if it names none. */
export function serviceOf(
  host: string,
  names: ClusterNames,
): { readonly service: string; readonly namespace: string | undefined } | undefined {
  const parsed = parseServiceHost(host);
  if (parsed === undefined || (parsed.domain !== undefined && parsed.domain !== names.domain)) return undefined;
  return { service: parsed.service, namespace: parsed.namespace ?? names.namespace };
}

/**
 * The absolute name to query in DNS for a host, with a trailing dot. A name of one or two labels, or one that ends in `.svc`, is a
 * Service's. All other names, those with a trailing dot, and a single label without a known namespace are used as they are.
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
 * The absolute name of a plain target. Outside a cluster nothing says that `orders.shop` is a Service, so the name is queried as it is.
 * Inside a cluster a name such as `orders.shop` is never queried as it is: `.shop` exists on the internet, and a Service without a ready
 * pod has no DNS name.
 */
export function plainName(host: string, names: ClusterNames, inCluster: boolean): string {
  const parsed = parseServiceHost(host);
  const asItStands = !inCluster && parsed?.domain === undefined && !/\.svc\.?$|\.$/.test(host);
  return asItStands ? `${host.toLowerCase()}.` : absoluteName(host, names);
}

/** `localhost` and names below it are this machine (RFC 6761 section 6.3); no name server is queried. */
export function isLocalhost(host: string): boolean {
  return /^(.+\.)?localhost\.?$/i.test(host);
}

/** A valid DNS host name, lower case. Throws EVENKEEL_OPTION. */
export function checkHost(name: string, value: unknown): string {
  if (typeof value !== 'string' || !isHostName(value)) throw optionError(name, 'a host name or an IP address', value);
  return value.toLowerCase();
}

/** Whether a text is a host name that can be queried in DNS; a trailing dot is fine. */
export function isHostName(text: string): boolean {
  return text.length <= 254 && text.replace(/\.$/, '').split('.').every(isLabel);
}

// Whether a text may be a part of a host name. These must not contain underscores, but SRV owners do, and so do names in practice.
function isLabel(label: string): boolean {
  return /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/i.test(label);
}
