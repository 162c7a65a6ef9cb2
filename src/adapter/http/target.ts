import { isIP } from 'node:net';
import { type Resolver, staticEndpoints } from '../../index.js';
import { optionError, readClusterNames } from '../kit/index.js';
import { bareHost } from './dial.js';
import { OriginMatcher } from './origin.js';

/**
 * The matcher of a target. It reads the cluster's domain from the environment unless it is given. Throws EVENKEEL_OPTION for an
 * invalid domain.
 */
export function originMatcher(origin: URL, clusterDomain: unknown): OriginMatcher {
  if (clusterDomain === undefined) {
    const matcher = new OriginMatcher(origin);
    void readClusterNames().then(({ domain }) => matcher.learnDomain(domain));
    return matcher;
  }
  return new OriginMatcher(origin, checkClusterDomain(clusterDomain));
}

/** Throws EVENKEEL_OPTION for an invalid domain. */
export function checkClusterDomain(value: unknown): string {
  if (typeof value === 'string' && /^[a-z0-9.-]+$/i.test(value)) return value;
  throw optionError('clusterDomain', 'a domain such as cluster.local', value);
}

/** Where the pods of an origin come from: an address is a fixed endpoint, a name is a Service to discover. */
export function resolverOf(origin: URL): Resolver | string {
  const port = Number(origin.port || (origin.protocol === 'https:' ? 443 : 80));
  const host = bareHost(origin);
  if (isIP(host) !== 0 || /(^|\.)localhost$/.test(host)) return staticEndpoints([{ address: host, port }]);
  return `${origin.hostname}:${port}`;
}
