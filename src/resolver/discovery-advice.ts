import { isEvenkeelError, isResolveError } from '../errors.js';
import type { ClusterNames, ServiceHost } from './cluster-domain.js';
import { serviceAccountIn, sliceReaderManifest } from './rbac.js';
import { AmbiguousPort } from './wrong-target.js';

/** The modes, best first: a watch of EndpointSlices, headless DNS, the Service's one address. */
export type DiscoveryMode = 'slices' | 'dns' | 'name';

/** What is known of the first mode. */
export type Finding =
  | { readonly kind: 'watching' }
  /** Asked, and no answer yet. */
  | { readonly kind: 'silent' }
  /** The host is not the name of a Service of this cluster. */
  | { readonly kind: 'no-service' }
  /** The API server knows no slice of it. */
  | { readonly kind: 'absent' }
  /** Nor a Service of that name. */
  | { readonly kind: 'missing'; readonly error: Error }
  /** There is no such mode here, for a reason. */
  | { readonly kind: 'unavailable'; readonly reason: string }
  | { readonly kind: 'failed'; readonly error: Error };

/** Where a discovery stands. */
export interface DiscoveryState {
  readonly mode: DiscoveryMode;
  readonly finding: Finding;
  readonly service: ServiceHost | undefined;
  readonly port: number | string;
  /** Endpoints found. */
  readonly count: number;
  readonly names: ClusterNames | undefined;
}

/** What stands in the way of the first mode until somebody changes something, by its code; undefined if nothing does. */
export function obstacleOf(finding: Finding): string | undefined {
  if (finding.kind !== 'failed' || !isResolveError(finding.error)) return undefined;
  const { code, permanent } = finding.error;
  // A refusal is told in full the first time, though it may be over in a moment.
  return permanent || code === 'EVENKEEL_FORBIDDEN' ? code : undefined;
}

/** Why it stands there, and what would make it better, in sentences. */
export function adviceFor(state: DiscoveryState): { readonly reason: string; readonly advice?: string } {
  const { mode, finding, count } = state;
  if (mode === 'slices') return { reason: 'its EndpointSlices are watched' };
  const reason = [whyNoSlices(finding), count === 0 ? noSuchName : modeMeaning[mode]].join('; ');
  const advice = [betterSlices(state), mode === 'name' ? nameModeAdvice : undefined]
    .filter((part) => part !== undefined)
    .join('\n');
  return advice === '' ? { reason } : { reason, advice };
}

/** What a lower mode means. */
export const modeMeaning: Readonly<Record<'dns' | 'name', string>> = {
  dns: 'DNS is queried repeatedly for the pods behind it',
  name:
    'DNS names one address for all pods, so kube-proxy picks a pod when a connection opens: several connections are kept ' +
    'and replaced about every minute',
};

const noSuchName = 'DNS has no such name: there is no such Service, or none of its pods is ready';

const nameModeAdvice =
  'A headless Service (clusterIP: None) has its pods in DNS, without any permission; its port number is then the pods’ own.';

/** Why the first mode is not there, in words. */
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

function betterSlices({ finding, service, names, port }: DiscoveryState): string | undefined {
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
