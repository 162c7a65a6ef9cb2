import { AmbiguousPort, WrongTarget } from '../../wrong-target.js';
import type { ApiClient } from '../api/api-client.js';
import { readFailure, readJson } from '../api/read-json.js';
import { isObject, textOf } from '../api/unchecked.js';
import type { EndpointSlice } from './endpoint-slice.js';

/** The most bytes of a Service object that are read; the API server stores no object of more than 1.5 MiB. */
export const MAX_SERVICE_BYTES: number = 4 * 1024 * 1024;
export const MAX_SERVICE_CONTAINERS = 100_000;

/** One port of a Service. */
export interface ServicePort {
  /** The name of the port; empty if it has none. */
  readonly name: string;
  /** The number of the port on the Service, which may differ from that on the pods. */
  readonly port: number;
  readonly protocol: string;
}

/** What a Service object says about the Service. */
export interface ServiceFacts {
  readonly type: string;
  /** Whether the Service's `clusterIP` is None, so that DNS names the pods. */
  readonly headless: boolean;
  readonly clusterIP: string | undefined;
  /** The name an ExternalName Service points to. */
  readonly externalName: string | undefined;
  /** Whether the Service selects pods; otherwise someone else writes its EndpointSlices. */
  readonly hasSelector: boolean;
  readonly ports: readonly ServicePort[];
}

/** The names of all TCP ports in the slices, sorted. */
export function portNames(slices: Iterable<EndpointSlice>): readonly string[] {
  const names = new Set<string>();
  for (const slice of slices) for (const { name } of slice.ports) names.add(name);
  return [...names].sort();
}

/**
 * Reads a Service object. Needs the verb get on services; rejects with an ApiFailure without that permission, or if there is no such
 * Service.
 */
export async function readService(
  client: ApiClient,
  namespace: string,
  service: string,
  signal: AbortSignal,
): Promise<ServiceFacts> {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/services/${encodeURIComponent(service)}`;
  const reply = await client.get({ path, query: {}, signal });
  if (reply.status !== 200) throw await readFailure(reply);
  const object = await readJson(reply, { bytes: MAX_SERVICE_BYTES, containers: MAX_SERVICE_CONTAINERS }, 'Service');
  return parseService(object);
}

/** Reads a Service object; missing fields and wrong types count as absent. */
export function parseService(object: unknown): ServiceFacts {
  const spec = isObject(object) && isObject(object.spec) ? object.spec : {};
  const ports = Array.isArray(spec.ports) ? (spec.ports as readonly unknown[]) : [];
  const clusterIP = textOf(spec.clusterIP);
  const headless = clusterIP === 'None';
  return {
    type: textOf(spec.type) ?? 'ClusterIP',
    headless,
    clusterIP: headless ? undefined : clusterIP,
    externalName: textOf(spec.externalName),
    hasSelector: isObject(spec.selector) && Object.keys(spec.selector).length > 0,
    ports: ports.flatMap((port) =>
      isObject(port) && typeof port.port === 'number'
        ? { name: textOf(port.name) ?? '', port: port.port, protocol: textOf(port.protocol) ?? 'TCP' }
        : [],
    ),
  };
}

/**
 * The name of the port that a number in a target means: the Service's own number. A headless Service has no address of its own, and other
 * clients reach its pods at the pods' ports, so those count too unless the Service itself has that number.
 */
export function nameOfPort(
  { ports, headless }: ServiceFacts,
  slices: Iterable<EndpointSlice>,
  number: number,
): string | undefined {
  const own = ports.find(({ port, protocol }) => port === number && protocol === 'TCP');
  if (own !== undefined || !headless) return own?.name;
  const names = new Set<string>();
  for (const slice of slices) for (const port of slice.ports) if (port.port === number) names.add(port.name);
  const [name] = names;
  return names.size === 1 ? name : undefined;
}

/** The error when the Service does not have the requested port. `subject` is for example `shop/orders`. */
export function noSuchPort(subject: string, port: number | string, { ports }: ServiceFacts): WrongTarget {
  const other = ports.find((known) => (typeof port === 'number' ? known.port : known.name) === port);
  const what = typeof port === 'number' ? `port ${port}` : `port named ${JSON.stringify(port)}`;
  const not = other === undefined ? `no ${what}` : `no TCP ${what}`;
  // If the Service lacks that port number, nothing says which of the pods' ports is meant.
  const permanent = typeof port === 'number';
  return new WrongTarget('port', `Service ${subject} has ${not}; it has ${portsInWords(ports)}`, { permanent });
}

/** The ports of a Service for a message, such as `http 8080, dns 53 (UDP)`. */
export function portsInWords(ports: readonly ServicePort[]): string {
  const words = ports.map(({ name, port, protocol }) => {
    const number = protocol === 'TCP' ? `${port}` : `${port} (${protocol})`;
    return name === '' ? number : `${name} ${number}`;
  });
  return words.join(', ') || 'none';
}

/** The error when a number alone does not say which of several ports is meant: a port is never guessed. */
export function ambiguousPort(
  subject: string,
  port: number | undefined,
  names: readonly string[],
  why: string,
  cause?: unknown,
): AmbiguousPort {
  const list = names.map((name) => JSON.stringify(name)).join(', ');
  const what =
    port === undefined ? `${subject} has several ports` : `port ${port} of ${subject} could be any of several`;
  return new AmbiguousPort(`${what}: ${list}; ${why}. Name one with the port option`, names, cause);
}
