/** Where the servers of a Service are found, and which services a pattern names. */
import { isIP } from 'node:net';
import { EvenkeelError, type Resolver, staticEndpoints } from '../../../index.js';
import { checkPort, checkString } from '../../kit/index.js';

const MYSQL_PORT = 3_306;

/** The options that say where the servers of a Service are. */
export interface WhereaboutsOptions {
  readonly target?: string | undefined;
  readonly resolver?: Resolver | string | undefined;
  readonly host?: string | undefined;
  readonly port?: number | undefined;
}

/** Where the servers of a Service are found, after the options were checked. */
export interface Whereabouts {
  /** The resolver that finds the servers, or a target string for one. */
  readonly resolver: Resolver | string;
  /** The Service's host name, which TLS uses. */
  readonly host: string | undefined;
}

/** Reads the options that say where the servers are. Throws EVENKEEL_OPTION if they are missing or contradict each other. */
export function whereabouts(options: WhereaboutsOptions): Whereabouts {
  const { target, resolver, port } = options;
  const host = options.host === undefined ? undefined : checkString('host', options.host);
  if (target !== undefined && resolver !== undefined) {
    throw new EvenkeelError('EVENKEEL_OPTION', 'target and resolver say the same: give one of them');
  }
  const source = target ?? resolver;
  if (source === undefined) {
    if (host === undefined) {
      throw new EvenkeelError(
        'EVENKEEL_OPTION',
        'where are the servers? Give `target` (mysql-read.shop:3306), `resolver`, or `host` and `port`',
      );
    }
    return { resolver: resolverOf(targetOfHost(host, port), host, port ?? MYSQL_PORT), host };
  }
  if (port !== undefined) {
    throw new EvenkeelError('EVENKEEL_OPTION', 'port goes with host alone: a target and a resolver have their own');
  }
  if (target !== undefined) checkString('target', target);
  if (typeof source !== 'string') return { resolver: source, host };
  const named = hostOfTarget(source);
  const [, number] = /:(\d+)$/.exec(source) ?? [];
  return { resolver: resolverOf(source, named, Number(number)), host: host ?? named };
}

/** How a target's servers are found: an IP address or localhost is one server; any other name is resolved as a Service. */
function resolverOf(target: string, host: string | undefined, port: number): Resolver | string {
  const isPlain = host !== undefined && !/^(kubernetes|dns|static):(?!\d+$)/.test(target.trim());
  if (!isPlain || !(port >= 1 && port <= 65_535)) return target;
  if (isIP(host) === 0 && !/(^|\.)localhost$/.test(host)) return target;
  return staticEndpoints([{ address: host, port }]);
}

/** The host name in a target, for TLS and for messages; undefined for a list of addresses. */
export function hostOfTarget(target: string): string | undefined {
  const [, scheme, rest = target] = /^(kubernetes|dns|static):(?!\d+$)(.*)$/.exec(target.trim()) ?? [];
  if (scheme === 'static') return undefined;
  const host = rest
    .trim()
    .replace(/:[^:\]]*$/, '')
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');
  return host === '' ? undefined : host;
}

/** Builds a target string from `host` and `port`. */
export function targetOfHost(host: string, port: number | undefined): string {
  const checked = checkPort('port', port ?? MYSQL_PORT);
  return isIP(host) === 6 ? `[${host}]:${checked}` : `${host}:${checked}`;
}

/** Whether a name matches a pattern in mysql2's syntax: `*` matches any text. */
export function matches(pattern: string, name: string): boolean {
  const source = pattern.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replace(/\*+/g, '.*');
  return new RegExp(`^${source}$`).test(name);
}
