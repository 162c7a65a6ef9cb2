import { type Balancer, createBalancer } from '../../balancer/balancer.js';
import { type BalancingOptions, balancingTable } from '../../balancer/balancer-options.js';
import type { Transport } from '../../pool/transport.js';
import type { ServiceHost } from '../../resolver/cluster-domain.js';
import { parseTarget } from '../../resolver/target-grammar.js';
import { checkKeys, optionError } from '../../runtime/check.js';
import { ownProperties } from '../../runtime/own-properties.js';

/** The name by which clients know a Service, whichever pod they are connected to. */
export interface ServiceName {
  /** The Service's host name, for TLS and for protocols in which a client names the server it wants. */
  readonly host: string;
  /** The Service's port; undefined if the target has a named port. */
  readonly port: number | undefined;
  /** Whether the target is a list of addresses, of which these are the first. */
  readonly isList: boolean;
}

/**
 * Returns the host and port of a target such as `broker.shop:5672`; for a static list of addresses, those of the first. Throws
 * EVENKEEL_OPTION.
 */
export function serviceName(target: unknown): ServiceName {
  if (typeof target !== 'string') throw optionError('target', 'a target such as broker.shop:5672', target);
  const parsed = parseTarget(target);
  if (parsed.kind === 'static') {
    const [first] = parsed.endpoints;
    return { host: String(first?.address), port: first?.port, isList: true };
  }
  const { port } = parsed;
  const host = parsed.kind === 'kubernetes' ? serviceHost(parsed.service) : parsed.host;
  // The dot at the end of an absolute name is for DNS alone: no certificate has it.
  return { host: host.replace(/\.$/, ''), port: typeof port === 'number' ? port : undefined, isList: false };
}

function serviceHost({ service, namespace, domain }: ServiceHost): string {
  if (namespace === undefined) return service;
  return domain === undefined ? `${service}.${namespace}` : `${service}.${namespace}.svc.${domain}`;
}

/**
 * Creates the balancer of an adapter. It balances over the endpoints of `target`, unless `options.resolver` finds other ones. Throws
 * EVENKEEL_OPTION for an invalid target or option, and for options that are neither in `BalancingOptions` nor in `ownNames`.
 */
export function serviceBalancer<C>(
  target: unknown,
  options: BalancingOptions,
  ownNames: readonly string[],
  transport: (service: ServiceName) => Transport<C>,
): Balancer<C> {
  const service = serviceName(target);
  checkKeys('options', options, [...balancingTable.names, ...ownNames]);
  return createBalancer({
    ...pickNames(options, balancingTable.names),
    resolver: ownProperties(options).resolver ?? (target as string),
    transport: transport(service),
  });
}

/** Copies the properties of `from` that `names` lists and that are not undefined. */
export function pickNames<T extends object, K extends keyof T>(from: T, names: readonly K[]): Pick<T, K> {
  const picked: Partial<T> = {};
  const own = ownProperties(from);
  for (const name of names) if (own[name] !== undefined) picked[name] = own[name];
  return picked as Pick<T, K>;
}
