import { isEvenkeelError, isResolveError, ResolveError } from '../errors.js';
import { type ClusterNames, parseServiceHost, type ServiceHost } from './cluster-domain.js';
import type { DnsModeOptions } from './dns-mode.js';
import { serviceAccountIn, sliceReaderManifest } from './rbac.js';
import { AmbiguousPort } from './wrong-target.js';

/**
 * The ways to find the endpoints of a plain target such as `orders.shop:8080`, best first: `slices` watches the Service's EndpointSlices,
 * `dns` queries DNS for the pods of a headless Service, and `name` uses the single address of the Service.
 */
export type DiscoveryMode = 'slices' | 'dns' | 'name';

/** What is known about the best way to find endpoints, a watch of EndpointSlices. */
export type Finding =
  | { readonly kind: 'watching' }
  /** The API server has not answered yet. */
  | { readonly kind: 'silent' }
  /** The host name is not the name of a Service of this cluster. */
  | { readonly kind: 'no-service' }
  /** The API server answered that there is no EndpointSlice for the name. */
  | { readonly kind: 'absent' }
  /** The API server answered that there is no Service with that name. */
  | { readonly kind: 'missing'; readonly error: ResolveError }
  /** EndpointSlices cannot be watched where this process runs, for example on a laptop. */
  | { readonly kind: 'unavailable'; readonly reason: string }
  | { readonly kind: 'failed'; readonly error: Error };

/** The facts that decide what operators are told: how the endpoints are found, and what prevents a better way. */
export interface AdviceFacts {
  readonly mode: DiscoveryMode;
  readonly finding: Finding;
  readonly service: ServiceHost | undefined;
  readonly port: number | string;
  /** How many endpoints were found in the current way. */
  readonly count: number;
  readonly names: ClusterNames | undefined;
}

/**
 * Returns the error code of the problem that keeps EndpointSlices from being watched until somebody changes something, such as a missing
 * permission. Undefined if there is no such problem.
 */
export function obstacleOf(finding: Finding): string | undefined {
  if (finding.kind !== 'failed' || !isResolveError(finding.error)) return undefined;
  const { code, permanent } = finding.error;
  // A refusal may be temporary, but it counts from the first one on, so that operators get to know about it.
  return permanent || code === 'EVENKEEL_FORBIDDEN' ? code : undefined;
}

/** Explains to operators why the endpoints are found in this way, and what would allow a better way. */
export function adviceFor(state: AdviceFacts): { readonly reason: string; readonly advice?: string } {
  const { mode, finding, count } = state;
  if (mode === 'slices') return { reason: 'its EndpointSlices are watched' };
  const reason = [whyNoSlices(finding), count === 0 ? noSuchName : modeMeaning[mode]].join('; ');
  const advice = [betterSlices(state), mode === 'name' ? nameModeAdvice : undefined]
    .filter((part) => part !== undefined)
    .join('\n');
  return advice === '' ? { reason } : { reason, advice };
}

/** What it means that the endpoints are not found through EndpointSlices, as text. */
export const modeMeaning: Readonly<Record<'dns' | 'name', string>> = {
  dns: 'DNS is queried repeatedly for the pods behind it',
  name:
    'DNS names one address for all pods, so kube-proxy picks a pod when a connection opens: several connections are kept ' +
    'and replaced about every minute',
};

const noSuchName = 'DNS has no such name: there is no such Service, or none of its pods is ready';

const nameModeAdvice =
  'A headless Service (clusterIP: None) has its pods in DNS, without any permission; its port number is then the pods’ own.';

/** The reason why EndpointSlices are not watched, as text. */
export function whyNoSlices(finding: Finding): string {
  switch (finding.kind) {
    case 'watching':
      return 'its EndpointSlices were watched';
    case 'silent':
      return 'the API server has not answered yet';
    case 'no-service':
      return 'this is not the name of a Service in this cluster';
    case 'absent':
      return 'the API server has no EndpointSlice of it';
    case 'missing':
      return finding.error.message;
    case 'unavailable':
      return `EndpointSlices are not watched: ${finding.reason}`;
    case 'failed':
      return `EndpointSlices are not watched: ${finding.error.message}`;
  }
}

/**
 * Returns an error with advice for somebody who works on a laptop, where DNS does not know a Service's name. Undefined if this process
 * does not seem to run there.
 */
export function outsideError(
  { target, host, port, dns }: DnsModeOptions,
  names: ClusterNames | undefined,
  { kind }: Finding,
): ResolveError | undefined {
  const service = parseServiceHost(host);
  if (dns.clusterDomain !== undefined) return undefined;
  if (kind !== 'unavailable' || names === undefined || names.namespace !== undefined) return undefined;
  if (service === undefined || service.namespace === undefined) return undefined;
  const forward = `kubectl port-forward -n ${service.namespace} service/${service.service} ${port}`;
  const local = typeof port === 'number' ? `localhost:${port}` : 'the port on localhost that it prints';
  return new ResolveError(
    `${target}: not in a cluster, and DNS has no such name here. From a laptop: ${forward}, then use ${local}`,
  );
}

/** Describes the refusal if the API server refuses to show EndpointSlices for lack of permission; undefined if it does not. */
export function refusalOf(finding: Finding): string | undefined {
  return finding.kind === 'failed' && isEvenkeelError(finding.error, 'EVENKEEL_FORBIDDEN')
    ? whyNoSlices(finding)
    : undefined;
}

/**
 * Returns an error that names both problems if DNS does not know the name and the API server refuses to show EndpointSlices. Undefined if
 * the API server does not refuse.
 */
export function refusedError(target: string, finding: Finding, dnsError: ResolveError): ResolveError | undefined {
  const refusal = refusalOf(finding);
  if (refusal === undefined) return undefined;
  return new ResolveError(`${target}: ${dnsError.message}; ${refusal}`, { cause: dnsError });
}

/**
 * Returns the error for the time in which no endpoints have ever been found. It names the problem of each way that was tried. It is never
 * permanent, because DNS may find endpoints at any moment.
 */
export function withoutAnyError(target: string, finding: Finding, dnsError: ResolveError): ResolveError {
  const sliceError = finding.kind === 'failed' ? finding.error : undefined;
  const reasons = [sliceError?.message, dnsError.message].filter((reason) => reason !== undefined);
  const code = isResolveError(sliceError) && sliceError.code === 'EVENKEEL_FORBIDDEN' ? sliceError.code : undefined;
  const message = `${target}: ${reasons.join('; ')}`;
  return new ResolveError(message, { ...(code && { code }), cause: sliceError ?? dnsError });
}

function betterSlices({ finding, service, names, port }: AdviceFacts): string | undefined {
  if (finding.kind !== 'failed') return undefined;
  const { error } = finding;
  const ambiguous = error instanceof AmbiguousPort;
  if (!ambiguous && !isEvenkeelError(error, 'EVENKEEL_FORBIDDEN')) return undefined;
  const account = serviceAccountIn(error.message) ?? { namespace: names?.namespace ?? 'default', name: 'default' };
  const namespace = service?.namespace ?? names?.namespace ?? account.namespace;
  const manifest = sliceReaderManifest(namespace, account);
  if (!ambiguous) return `This lets evenkeel watch EndpointSlices (kubectl apply -f -):\n${manifest}`;
  const targets = error.names.map((name) => `'kubernetes:${service?.service}.${namespace}:${name}'`).join(' or ');
  return (
    `EndpointSlices do not tell which port ${port} is. Name it, as in resolver: ${targets}, ` +
    `or allow "get services" (kubectl apply -f -):\n${manifest}`
  );
}
