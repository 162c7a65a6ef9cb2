import { type AllowAddresses, allowAddressesOption } from '../../endpoint/unsafe-address.js';
import { checkPort, checkString, optionError } from '../../runtime/check.js';
import type { Filled } from '../../runtime/complete.js';
import {
  anyOption,
  booleanOption,
  checkedOption,
  choiceOption,
  numberOption,
  type OptionTable,
  optionTable,
  requiredOption,
} from '../../runtime/options.js';
import { topologyFromEnv } from '../../runtime/topology.js';
import type { AddressFamily } from '../host-families.js';
import type { Resolver } from '../resolver.js';
import type { ApiAccess } from './api/api-access.js';
import { type ApiCredentials, explicitAccess } from './api/explicit-access.js';
import { type InClusterOptions, inClusterAccess } from './api/in-cluster.js';
import { type KubeConfigLike, kubeConfigAccess } from './api/kube-config.js';
import { SliceView, type ViewOptions } from './slice-view.js';

/**
 * Options of `endpointSlices`: which Service to follow, which port of its pods to use, and how to reach the Kubernetes API server. They
 * are fixed once the resolver is created; an invalid one throws EVENKEEL_OPTION.
 */
export interface EndpointSlicesOptions {
  /** The Service's name. */
  readonly service: string;
  /** The Service's namespace. @defaultValue the namespace of this pod, or of the kubeconfig's context */
  readonly namespace?: string | undefined;
  /**
   * Which port of the Service to use: its name (`''` for a port without a name), or its number in the Service. A number has to be looked
   * up in the Service, which needs the permission `get` on `services`; without that permission, a number only works for a Service with a
   * single port.
   *  @defaultValue the Service's only port
   */
  readonly port?: string | number | undefined;
  /** A port of the pods to use, whether or not the Service lists it. Cannot be combined with `port`. @defaultValue none */
  readonly podPort?: number | undefined;
  /**
   * The only family of addresses to use.
   * @defaultValue the one this host has, if the Service has it. With both, a pod is one endpoint with two addresses, IPv4 first
   * @see docs/guide/endpoint-slices.md#ipv4-and-ipv6
   */
  readonly family?: AddressFamily | undefined;
  /** Kinds of addresses to accept although no pod can have them, such as `['loopback']` in tests. @defaultValue [] */
  readonly allowAddresses?: AllowAddresses | undefined;
  /**
   * The most endpoints that a set may have. A larger set is refused with an error, and the last set stays in use. @defaultValue 50000
   */
  readonly maxEndpoints?: number | undefined;
  /**
   * The URL of the API server. An `http:` URL is only allowed without a token, or on loopback. @defaultValue the API server of the
   * cluster that this pod runs in
   */
  readonly apiServer?: string | undefined;
  /**
   * The credentials for the server in `apiServer`: a token, a certificate authority, a client certificate. Only allowed together with
   * `apiServer`. @defaultValue none
   */
  readonly credentials?: ApiCredentials | undefined;
  /**
   * A loaded `KubeConfig` of the package `@kubernetes/client-node`. Cannot be combined with `apiServer`.
   * @defaultValue none: evenkeel does not search for a kubeconfig
   * @see docs/guide/endpoint-slices.md#from-outside-the-cluster
   */
  readonly kubeConfig?: KubeConfigLike | undefined;
  /** Where a pod finds its service account, `{ path, env }`. For tests. @defaultValue where Kubernetes mounts it */
  readonly inCluster?: InClusterOptions | undefined;
  /**
   * Whether a watch may start with the current state instead of requesting a separate list first, if the API server supports that. A
   * separate list is sent compressed, and the start of a watch is not. @defaultValue true
   */
  readonly streamingLists?: boolean | undefined;
}

type EndpointSlicesSettings = Filled<
  EndpointSlicesOptions,
  'namespace' | 'port' | 'podPort' | 'family' | 'apiServer' | 'credentials' | 'kubeConfig' | 'inCluster'
>;

export const endpointSlicesTable: OptionTable<EndpointSlicesSettings> = optionTable('endpointSlices', {
  service: requiredOption(checkName),
  namespace: checkedOption<string | undefined>(undefined, checkName),
  port: checkedOption<string | number | undefined>(undefined, checkServicePort),
  podPort: checkedOption<number | undefined>(undefined, checkPort),
  family: choiceOption<AddressFamily, undefined>(undefined, ['IPv4', 'IPv6']),
  allowAddresses: allowAddressesOption,
  maxEndpoints: numberOption(50_000, { min: 1, integer: true }),
  // These options select the API server. They are checked by the function that uses them.
  apiServer: anyOption<string>(),
  credentials: anyOption<ApiCredentials>(),
  kubeConfig: anyOption<KubeConfigLike>(),
  inCluster: anyOption<InClusterOptions>(),
  streamingLists: booleanOption(true),
});

/**
 * Follows the EndpointSlices of a Service through the Kubernetes API: every pod with its state, zone and hints, within
 * milliseconds of a change. Needs the verbs `list` and `watch` on `endpointslices`. All resolvers of one process for one
 * Service share one watch.
 *
 * The set stays in use while the API server is away. A pod that stops being ready leaves it in the same turn of the event loop
 * in which the event arrives; other changes come at most 20 times a second.
 *
 * @returns A resolver. Throws EVENKEEL_OPTION. Fails with EVENKEEL_FORBIDDEN without permission, with EVENKEEL_PORT_AMBIGUOUS
 * for an ambiguous port number, and with EVENKEEL_RESOLVE for anything else.
 * @example endpointSlices({ namespace: 'shop', service: 'orders', port: 'http' })
 */
export function endpointSlices(options: EndpointSlicesOptions): Resolver {
  return countedSlices(options, () => {});
}

/**
 * Creates the resolver of `endpointSlices`.
 *
 * @param onSlices Called with the number of EndpointSlice objects of the Service, at the first complete list and whenever the number
 * changes, before the set is published. If it is 0 at first, there is no such Service or it selects no pods; a Service whose selector
 * matches no pod has one empty slice. Must not throw.
 */
export function countedSlices(options: EndpointSlicesOptions, onSlices: (count: number) => void): Resolver {
  const settings = endpointSlicesTable.resolve(options);
  const { service, namespace, port, podPort, streamingLists } = settings;
  if (port !== undefined && podPort !== undefined) throw optionError('podPort', 'left out when port is given', podPort);
  const access = chooseAccess(settings);
  if (settings.apiServer !== undefined && namespace === undefined) {
    throw optionError('namespace', 'given together with apiServer', namespace);
  }
  const subjectName = namespace === undefined ? service : `${namespace}/${service}`;
  const { family, allowAddresses, maxEndpoints } = settings;
  const view: ViewOptions = {
    subject: { access, namespace, service, streamingLists },
    subjectName,
    port,
    podPort,
    place: topologyFromEnv(),
    family,
    allowAddresses,
    maxEndpoints,
    onSlices,
  };
  const portText = podPort !== undefined ? `:pod port ${podPort}` : port !== undefined && port !== '' ? `:${port}` : '';
  return {
    name: `endpointslices ${subjectName}${portText}`,
    watch: (listener, context) => new SliceView(view, listener, context),
  };
}

function chooseAccess({ apiServer, credentials, kubeConfig, inCluster }: EndpointSlicesSettings): ApiAccess {
  const sources = Object.entries({ apiServer, kubeConfig, inCluster }).filter(([, value]) => value !== undefined);
  if (sources.length > 1) {
    throw optionError(sources.map(([name]) => name).join(' and '), 'given alone', 'both');
  }
  if (credentials !== undefined && apiServer === undefined) {
    throw optionError('credentials', 'given together with apiServer', credentials);
  }
  if (apiServer !== undefined) return explicitAccess(apiServer, credentials);
  if (kubeConfig !== undefined) return kubeConfigAccess(kubeConfig);
  return inClusterAccess(inCluster);
}

/** Checks a name by the rules of Kubernetes, because the name becomes part of a URL and of a label selector. */
function checkName(name: string, value: unknown): string {
  const text = checkString(name, value);
  if (text.length > 63 || !/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(text)) {
    throw optionError(name, "a Kubernetes name (lower-case letters, digits, '-', at most 63)", value);
  }
  return text;
}

function checkServicePort(name: string, value: unknown): string | number {
  if (value === '') return '';
  if (typeof value === 'string') {
    if (!/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/.test(value)) throw optionError(name, 'a port name or number', value);
    // A number given as text, such as "80" from an environment variable, counts as a number: names of ports must contain a letter.
    return /[a-z]/.test(value) ? value : checkPort(name, Number(value));
  }
  return checkPort(name, value);
}
