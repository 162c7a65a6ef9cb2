/** Where the servers of a database Service are found. */
import { isIPv6 } from 'node:net';
import { EvenkeelError, type Resolver } from '../../index.js';
import { serviceName } from '../kit/index.js';

/** Returns the option that says where the servers are; undefined if neither does. Throws EVENKEEL_OPTION if both do. */
export function sourceOf(
  target: string | undefined,
  resolver: Resolver | string | undefined,
): Resolver | string | undefined {
  if (target !== undefined && resolver !== undefined) {
    throw new EvenkeelError('EVENKEEL_OPTION', 'target and resolver say the same: give one of them');
  }
  return target ?? resolver;
}

/** The target for a host and a port: an IP address or localhost is one server, any other name that of a Service. */
export function targetOf(host: string, port: number): string {
  return isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`;
}

/** The host name in a target, for TLS; undefined for a list of addresses. Throws EVENKEEL_OPTION. */
export function hostOf(target: unknown): string | undefined {
  const { host, isList } = serviceName(target);
  return isList ? undefined : host;
}
