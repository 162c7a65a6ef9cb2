import { AmbiguousPort, WrongTarget } from '../../wrong-target.js';
import type { ApiClient } from '../api/api-client.js';
import { readFailure, readJson } from '../api/read-json.js';
import { isObject, textOf } from '../api/unchecked.js';
import type { EndpointSlice } from './endpoint-slice.js';

/** The most bytes of a Service object that are read. The API server stores no object larger than 1.5 MiB. */
const MAX_SERVICE_BYTES: number = 4 * 1024 * 1024;

/** One port of a Service. */
export interface ServicePort {
  /** The name of the port; empty if it has none. */
  readonly name: string;
  /** The number of the port on the Service, which may differ from that on the pods. */
  readonly port: number;
  readonly protocol: string;
  /** The name that this port has in the pods' containers; undefined if the Service gives a number. */
  readonly targetPort?: string;
}

/** What a Service object says about the Service. */
export interface ServiceFacts {
  readonly type: string;
  /** Whether the Service is headless, that is, has no IP address of its own, so that its DNS name leads to the pods. */
  readonly headless: boolean;
  readonly clusterIP: string | undefined;
  /** The DNS name that a Service of the type ExternalName points to. */
  readonly externalName: string | undefined;
  /** Whether the Service selects pods. If not, its EndpointSlices are written by a person or another program. */
  readonly hasSelector: boolean;
  readonly ports: readonly ServicePort[];
  readonly internalTrafficPolicy: string | undefined;
  readonly sessionAffinity: string | undefined;
  readonly trafficDistribution: string | undefined;
}

/** The names of all TCP ports in the slices, sorted. */
export function portNames(slices: Iterable<EndpointSlice>): readonly string[] {
  const names = new Set<string>();
  for (const slice of slices) for (const { name } of slice.ports) names.add(name);
  return [...names].sort();
}

/**
 * Reads a Service object from the API server. Rejects with an ApiFailure if there is no such Service, or without the permission `get` on
 * `services`.
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
  const object = await readJson(reply, { bytes: MAX_SERVICE_BYTES }, 'Service');
  return parseService(object);
}

/** Reads a Service object. A field of the wrong type counts as missing. */
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
    ports: ports.flatMap((port) => (isObject(port) && typeof port.port === 'number' ? portOf(port, port.port) : [])),
    internalTrafficPolicy: textOf(spec.internalTrafficPolicy),
    sessionAffinity: textOf(spec.sessionAffinity),
    trafficDistribution: textOf(spec.trafficDistribution),
  };
}

function portOf(object: Readonly<Record<string, unknown>>, port: number): ServicePort {
  const targetPort = textOf(object.targetPort);
  return {
    name: textOf(object.name) ?? '',
    port,
    protocol: textOf(object.protocol) ?? 'TCP',
    ...(targetPort !== undefined && { targetPort }),
  };
}

/** Finds the name of the port that the user means by a number: that of the Service's port with this number. */
export function nameOfPort({ ports }: ServiceFacts, number: number): string | undefined {
  return ports.find(({ port, protocol }) => port === number && protocol === 'TCP')?.name;
}

/** Whether clients connect to the Service's pods at the pods' own ports. Its object says so or, until that is read, the label of its slices. */
export function isHeadless(slices: readonly EndpointSlice[], facts: ServiceFacts | undefined): boolean {
  return facts?.headless ?? slices.some((slice) => slice.isHeadless);
}

/** The error when the Service does not have the requested port. `subject` is for example `shop/orders`. */
export function noSuchPort(subject: string, port: number | string, { ports }: ServiceFacts): WrongTarget {
  const other = ports.find((known) => (typeof port === 'number' ? known.port : known.name) === port);
  const what = typeof port === 'number' ? `port ${port}` : `port named ${JSON.stringify(port)}`;
  const not = other === undefined ? `no ${what}` : `no TCP ${what}`;
  // The Service does not have the port number, so there is nothing to tell which of the pods' ports is meant.
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

/** The error for a number that could mean several ports. Evenkeel does not guess. */
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
