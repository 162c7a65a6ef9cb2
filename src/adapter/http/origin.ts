import { isIP } from 'node:net';
import { EvenkeelError, type Resolver, staticEndpoints } from '../../index.js';
import { optionError, readClusterNames } from '../kit/index.js';
import { bareHost } from './dial.js';

/** The default cluster domain. */
const DEFAULT_DOMAIN = 'cluster.local';
/** How many origins are remembered with their result; any further origin is compared again each time. */
const MAX_REMEMBERED = 1_000;

/** Checks that a value is the `http:` or `https:` URL of a Service, with nothing after the host and port. Throws EVENKEEL_OPTION. */
export function serviceOrigin(name: string, value: unknown): URL {
  const expected = 'a URL of a Service such as http://orders.shop:8080';
  if (typeof value !== 'string' && !(value instanceof URL)) throw optionError(name, expected, value);
  let url: URL;
  try {
    url = new URL(value);
  } catch {
    throw optionError(name, expected, value);
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw optionError(name, expected, String(value));
  if (url.username !== '' || url.password !== '') {
    // The value is not in the message, because it contains a password.
    throw new EvenkeelError('EVENKEEL_OPTION', `${name} must be ${expected}, without credentials`);
  }
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '') {
    throw optionError(name, `${expected}, without a path`, url.href);
  }
  return url;
}

/** The parts of a host name that may be the name of a Service. */
interface ServiceName {
  /** The Service's short name: `service.namespace`. */
  readonly name: string;
  /** The cluster domain, which follows `.svc.`; undefined for a short name. */
  readonly domain: string | undefined;
}

function serviceName(hostname: string): ServiceName | undefined {
  const labels = hostname.replace(/\.$/, '').split('.');
  const [service, namespace, svc, ...domain] = labels;
  if (service === undefined || namespace === undefined || (svc !== undefined && svc !== 'svc')) return undefined;
  return { name: `${service}.${namespace}`, domain: domain.length === 0 ? undefined : domain.join('.') };
}

/**
 * Decides which origins mean a target. Short and full names of a Service are equal (`orders.shop`, `orders.shop.svc`,
 * `orders.shop.svc.cluster.local`, each with or without a final dot); scheme and port must be the same too. Any other origin is another
 * server: neither may receive requests meant for the other.
 */
export class OriginMatcher {
  /** The target's origin in the form that a URL prints, which nearly every request uses. */
  readonly origin: string;
  readonly #target: URL;
  readonly #service: ServiceName | undefined;
  #domain: string;
  readonly #remembered = new Map<string, boolean>();
  /** Settles when the cluster's DNS domain is known. */
  #known: Promise<void> = Promise.resolve();

  constructor(target: URL, clusterDomain: string = DEFAULT_DOMAIN) {
    this.#target = target;
    this.origin = target.origin;
    this.#service = serviceName(target.hostname);
    this.#domain = this.#service?.domain ?? clusterDomain;
  }

  /** Sets the cluster's DNS domain, unless the target's own name contains it. */
  learnDomain(domain: string): void {
    if (this.#service?.domain !== undefined || domain === this.#domain) return;
    this.#domain = domain;
    this.#remembered.clear();
  }

  /** Waits for the cluster's DNS domain and sets it. */
  learnDomainFrom(domain: Promise<string>): void {
    this.#known = domain.then((clusterDomain) => this.learnDomain(clusterDomain));
  }

  /** Compares like `matches`, but waits until the cluster's DNS domain is known. */
  async matchesInCluster(origin: string): Promise<boolean> {
    if (this.matches(origin)) return true;
    await this.#known;
    return this.matches(origin);
  }

  /** Whether an origin means the target; an `undefined` origin does. */
  matches(origin: string | URL | undefined): boolean {
    if (origin === undefined || origin === this.origin) return true;
    const text = String(origin);
    const remembered = this.#remembered.get(text);
    if (remembered !== undefined) return remembered;
    const answer = this.#compare(text);
    if (this.#remembered.size < MAX_REMEMBERED) this.#remembered.set(text, answer);
    return answer;
  }

  #compare(text: string): boolean {
    if (!URL.canParse(text)) return false;
    const url = new URL(text);
    if (url.protocol !== this.#target.protocol || url.port !== this.#target.port) return false;
    if (url.hostname.replace(/\.$/, '') === this.#target.hostname.replace(/\.$/, '')) return true;
    const otherService = serviceName(url.hostname);
    if (otherService === undefined || this.#service === undefined || otherService.name !== this.#service.name)
      return false;
    return otherService.domain === undefined || otherService.domain === this.#domain;
  }
}

/**
 * Creates the matcher for a target's origin. Reads the cluster's domain from the environment unless `clusterDomain` is set. Throws
 * EVENKEEL_OPTION for an invalid domain.
 */
export function originMatcher(origin: URL, clusterDomain: unknown): OriginMatcher {
  if (clusterDomain === undefined) {
    const matcher = new OriginMatcher(origin);
    matcher.learnDomainFrom(readClusterNames().then(({ domain }) => domain));
    return matcher;
  }
  return new OriginMatcher(origin, checkClusterDomain(clusterDomain));
}

/** Checks a cluster domain. Throws EVENKEEL_OPTION for an invalid one. */
export function checkClusterDomain(value: unknown): string {
  if (typeof value === 'string' && /^[a-z0-9.-]+$/i.test(value)) return value;
  throw optionError('clusterDomain', 'a domain such as cluster.local', value);
}

/** Where the pods of an origin come from: an IP address is one fixed endpoint, a name is a Service whose pods are discovered. */
export function resolverOf(origin: URL): Resolver | string {
  const port = Number(origin.port || (origin.protocol === 'https:' ? 443 : 80));
  const host = bareHost(origin);
  if (isIP(host) !== 0 || /(^|\.)localhost$/.test(host)) return staticEndpoints([{ address: host, port }]);
  return `${origin.hostname}:${port}`;
}
