import { isEvenkeelError, isResolveError, ResolveError } from '../errors.js';
import { type ClusterNames, parseServiceHost, type ServiceHost } from './cluster-domain.js';
import type { DnsModeOptions } from './dns-mode.js';
import { serviceAccountIn, sliceReaderManifest } from './rbac.js';
import { AmbiguousPort } from './wrong-target.js';

/** The ways to find the endpoints of a plain target, best first: a watch of EndpointSlices, headless DNS, the Service's single address. */
export type DiscoveryMode = 'slices' | 'dns' | 'name';

/** What is known about the first discovery mode, the watch of EndpointSlices. */
export type Finding =
  | { readonly kind: 'watching' }
  /** The API server has not answered yet. */
  | { readonly kind: 'silent' }
  /** The host is not the name of a Service of this cluster. */
  | { readonly kind: 'no-service' }
  /** The API server has no EndpointSlice of the Service. */
  | { readonly kind: 'absent' }
  /** The API server has no Service with that name either. */
  | { readonly kind: 'missing'; readonly error: Error }
  /** The watch of EndpointSlices is not available where this process runs. */
  | { readonly kind: 'unavailable'; readonly reason: string }
  | { readonly kind: 'failed'; readonly error: Error };

/** The facts from which a discovery derives its advice to operators: how the endpoints are found and what is known about better modes. */
export interface AdviceFacts {
  readonly mode: DiscoveryMode;
  readonly finding: Finding;
  readonly service: ServiceHost | undefined;
  readonly port: number | string;
  /** How many endpoints the mode in use has found. */
  readonly count: number;
  readonly names: ClusterNames | undefined;
}

/** The code of what keeps EndpointSlices from being watched until someone changes something; undefined if nothing does. */
export function obstacleOf(finding: Finding): string | undefined {
  if (finding.kind !== 'failed' || !isResolveError(finding.error)) return undefined;
  const { code, permanent } = finding.error;
  // A refusal by the API server is reported in full the first time, although it may be temporary.
  return permanent || code === 'EVENKEEL_FORBIDDEN' ? code : undefined;
}

/** Why this discovery mode is used, and what would improve it, in sentences. */
export function adviceFor(state: AdviceFacts): { readonly reason: string; readonly advice?: string } {
  const { mode, finding, count } = state;
  if (mode === 'slices') return { reason: 'its EndpointSlices are watched' };
  const reason = [whyNoSlices(finding), count === 0 ? noSuchName : modeMeaning[mode]].join('; ');
  const advice = [betterSlices(state), mode === 'name' ? nameModeAdvice : undefined]
    .filter((part) => part !== undefined)
    .join('\n');
  return advice === '' ? { reason } : { reason, advice };
}

/** What the use of a lower discovery mode means, in words. */
export const modeMeaning: Readonly<Record<'dns' | 'name', string>> = {
  dns: 'DNS is queried repeatedly for the pods behind it',
  name:
    'DNS names one address for all pods, so kube-proxy picks a pod when a connection opens: several connections are kept ' +
    'and replaced about every minute',
};

const noSuchName = 'DNS has no such name: there is no such Service, or none of its pods is ready';

const nameModeAdvice =
  'A headless Service (clusterIP: None) has its pods in DNS, without any permission; its port number is then the pods’ own.';

/** Why EndpointSlices are not watched, in words. */
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

/** What to do on a laptop, where DNS does not know a Service's name; undefined if this process does not run on one. */
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

/** What the API server's refusal is, in words; undefined if it does not refuse us. */
export function refusalOf(finding: Finding): string | undefined {
  return finding.kind === 'failed' && isEvenkeelError(finding.error, 'EVENKEEL_FORBIDDEN')
    ? whyNoSlices(finding)
    : undefined;
}

/** The error when DNS has no such name and the API server refuses us; undefined if it does not refuse us. */
export function refusedError(target: string, finding: Finding, dnsError: ResolveError): ResolveError | undefined {
  const refusal = refusalOf(finding);
  if (refusal === undefined) return undefined;
  return new ResolveError(`${target}: ${dnsError.message}; ${refusal}`, { cause: dnsError });
}

/**
 * The error while no mode has ever found anything: it names the problem of each mode. Never permanent, because a lower mode may answer any
 * moment.
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
