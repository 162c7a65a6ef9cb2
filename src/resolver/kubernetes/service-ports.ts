import { ResolveError } from '../../errors.js';
import type { ApiClient } from './api-client.js';
import { type EndpointSlice, isObject, textOf } from './endpoint-slice.js';
import { readFailure, readJson } from './slice-list.js';

/** The API server stores no object of more than 1.5 MiB. */
const MAX_SERVICE_BYTES = 4 * 1024 * 1024;
const MAX_SERVICE_CONTAINERS = 100_000;

/** The names of a Service's TCP ports by their number in the Service. */
export type ServicePorts = ReadonlyMap<number, string>;

/** The names of all TCP ports that slices show, sorted. */
export function portNames(slices: Iterable<EndpointSlice>): readonly string[] {
  const names = new Set<string>();
  for (const slice of slices) for (const { name } of slice.ports) names.add(name);
  return [...names].sort();
}

/** Reads a Service's own port table (S11). Needs the verb get on services; rejects with an ApiFailure without it. */
export async function readServicePorts(
  client: ApiClient,
  namespace: string,
  service: string,
  signal: AbortSignal,
): Promise<ServicePorts> {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/services/${encodeURIComponent(service)}`;
  const reply = await client.get({ path, query: {}, signal });
  if (reply.status !== 200) throw await readFailure(reply);
  const object = await readJson(reply, { bytes: MAX_SERVICE_BYTES, containers: MAX_SERVICE_CONTAINERS }, 'Service');
  const spec = isObject(object) && isObject(object.spec) ? object.spec : {};
  const ports = new Map<number, string>();
  for (const port of Array.isArray(spec.ports) ? (spec.ports as readonly unknown[]) : []) {
    if (!isObject(port) || typeof port.port !== 'number') continue;
    if (port.protocol === undefined || port.protocol === 'TCP') ports.set(port.port, textOf(port.name) ?? '');
  }
  return ports;
}

/** S11: a number alone does not say which port is meant. Never guessed. */
export function ambiguousPort(
  subject: string,
  port: number | undefined,
  names: readonly string[],
  why: string,
  cause?: unknown,
): ResolveError {
  const list = names.map((name) => JSON.stringify(name)).join(', ');
  const what =
    port === undefined ? `${subject} has several ports` : `port ${port} of ${subject} could be any of several`;
  return new ResolveError(`${what}: ${list}; ${why}. Name one with the port option`, {
    code: 'EVENKEEL_PORT_AMBIGUOUS',
    permanent: true,
    cause,
  });
}
