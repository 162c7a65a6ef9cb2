/** Which addresses of gRPC clients name a Service, and how calls name it to a server. */
import { isIPv4, isIPv6 } from 'node:net';
import { optionError, type ServiceName, serviceName } from '../kit/index.js';

/** Matches an address of nothing but a host name and a port, which grpc-js would resolve with DNS; it may begin with `dns:///`. */
const PLAIN_ADDRESS = /^(?:dns:\/\/\/)?([a-z0-9_][a-z0-9_.-]*:\w+)$/i;

/**
 * The target string of evenkeel for an address that a client was created with; undefined if grpc-js must handle the address: IP addresses,
 * sockets (`unix:`) and any other scheme.
 */
export function serviceOf(address: string): string | undefined {
  if (/^(kubernetes|static):[^/]/.test(address)) return address;
  const [, service] = PLAIN_ADDRESS.exec(address) ?? [];
  if (service === undefined || isIPv4(service.slice(0, service.lastIndexOf(':')))) return undefined;
  return /^(unix|unix-abstract|xds|vsock):/.test(service) ? undefined : service;
}

/** Checks the Service name that the application passed. Throws EVENKEEL_OPTION. */
export function checkService(service: unknown): string {
  // The name is checked as part of a URL, because its authority becomes part of one, which cannot have a port above 65535.
  const isService =
    typeof service === 'string' && /^[^\s/?#@]+$/.test(service) && URL.canParse(`http://${authorityOf(service)}`);
  if (!isService) {
    throw optionError('service', 'a Service such as orders.shop:50051', service);
  }
  return service;
}

/**
 * The `:authority` of calls, and the name for TLS: the Service's own host and port, whatever the pod. A named port is left out, because an
 * authority cannot contain one; for a static list it is the first address.
 */
export function authorityOf(service: string): string {
  const name = nameIn(service);
  if (name === undefined) return service;
  const { host, port } = name;
  const literal = isIPv6(host) ? `[${host}]` : host;
  return port === undefined ? literal : `${literal}:${port}`;
}

/** Returns the name of the Service in a target string; undefined for any other name, for which the application has its own resolver. */
function nameIn(service: string): ServiceName | undefined {
  try {
    return serviceName(service);
  } catch {
    return undefined;
  }
}
