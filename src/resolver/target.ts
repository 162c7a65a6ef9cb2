import { type AllowAddresses, allowAddressesOption } from '../endpoint/unsafe-address.js';
import { checkFunction, checkKeys, optionError } from '../runtime/check.js';
import type { Filled } from '../runtime/complete.js';
import { checkedOption, choiceOption, numberOption, type OptionTable, optionTable } from '../runtime/options.js';
import { ownProperties } from '../runtime/own-properties.js';
import { deferred } from './deferred.js';
import { type DiscoveryService, discovery } from './discovery.js';
import { type DnsOptions, type DnsSettings, dns, dnsSettingsTable, literalAddress, resolveDnsOptions } from './dns.js';
import type { EndpointSlicesOptions } from './kubernetes/endpoint-slices.js';
import type { Resolver } from './resolver.js';
import { staticEndpoints } from './static.js';
import { parseTarget, type Target } from './target-grammar.js';

/** Options of `resolverFrom`: how the endpoints of a target string are found. An invalid one throws EVENKEEL_OPTION. */
export interface TargetOptions {
  /** Kinds of addresses to accept although no pod can have them, such as `['loopback']` in tests. @defaultValue [] */
  readonly allowAddresses?: AllowAddresses | undefined;
  /**
   * How DNS is queried for targets that begin with `dns:` and for plain ones such as `orders.shop:8080`. All options of `dns()` are
   * allowed except `host`, `port`, `srv` and `family`.
   * @defaultValue {}, see `DnsSettings`
   * @see docs/reference/options-discovery.md#dns
   */
  readonly dns?: DnsSettings | undefined;
  /**
   * How the Kubernetes API is used for targets that begin with `kubernetes:` and for plain ones: the options `apiServer`, `credentials`,
   * `kubeConfig`, `inCluster`, `maxEndpoints` and `streamingLists` of `endpointSlices()`. @defaultValue the API server of the cluster that
   * this pod runs in
   * @see docs/reference/options-discovery.md#endpointslices
   */
  readonly kubernetes?: KubernetesSettings | undefined;
  /**
   * The only family of addresses to use.
   * @defaultValue the one that this host has; if it has both, IPv4 first
   * @see docs/guide/endpoint-slices.md#ipv4-and-ipv6
   */
  readonly family?: 'IPv4' | 'IPv6' | undefined;
  /** How many connections are opened to the single address of a Service whose pods are unknown. @defaultValue 8 */
  readonly connections?: number | undefined;
  /**
   * The average age at which a connection to the single address of a Service is replaced, in ms; it varies by 50 %. @defaultValue 60000
   */
  readonly connectionAgeMs?: number | undefined;
  /** How long a plain target waits for the API server to answer before DNS is queried, too, in ms. @defaultValue 2500 */
  readonly sliceGraceMs?: number | undefined;
}

/** The options of `endpointSlices()` that select the API server and the credentials. */
export type KubernetesSettings = Pick<
  EndpointSlicesOptions,
  'apiServer' | 'credentials' | 'kubeConfig' | 'inCluster' | 'maxEndpoints' | 'streamingLists'
>;

const kubernetesSettingNames: readonly (keyof KubernetesSettings)[] = [
  'apiServer',
  'credentials',
  'kubeConfig',
  'inCluster',
  'maxEndpoints',
  'streamingLists',
];

type TargetSettings = Filled<TargetOptions, 'family'>;

export const targetTable: OptionTable<TargetSettings> = optionTable('options', {
  allowAddresses: allowAddressesOption,
  dns: checkedOption<DnsSettings>({}, (name, value) => {
    checkKeys(name, value, dnsSettingsTable.names);
    return value as DnsSettings;
  }),
  kubernetes: checkedOption<KubernetesSettings>({}, (name, value) => {
    checkKeys(name, value, kubernetesSettingNames);
    return value as KubernetesSettings;
  }),
  family: choiceOption<'IPv4' | 'IPv6', undefined>(undefined, ['IPv4', 'IPv6']),
  connections: numberOption(8, { min: 1, max: 1_000, integer: true }),
  connectionAgeMs: numberOption(60_000, { min: 1_000, max: 86_400_000 }),
  sliceGraceMs: numberOption(2_500, { min: 0, max: 60_000 }),
});

/**
 * Creates a resolver from a target string; a resolver is returned unchanged. Throws EVENKEEL_OPTION with a message that says what was
 * expected.
 *
 * - `kubernetes:orders.shop:http` watches the EndpointSlices of a Service
 * - `dns:orders.shop:8080` queries DNS for its pods; `dns:orders.shop:http` takes the port from SRV records
 * - `static:10.0.0.1:80,10.0.0.2:80` is exactly these addresses
 * - `orders.shop:8080` uses the best way that works: EndpointSlices, otherwise headless DNS, otherwise the Service's single address
 *
 * A port given as a number is the Service's port number; any other text is the name of a port.
 */
export function resolverFrom(target: string | Resolver, options: TargetOptions = {}): Resolver {
  if (typeof target !== 'string') {
    if (typeof target !== 'object' || target === null)
      throw optionError('target', 'a resolver or a target string', target);
    checkFunction('resolver.watch', target.watch);
    return target;
  }
  const settings = targetTable.resolve(options);
  const parsed = parseTarget(target);
  switch (parsed.kind) {
    case 'static':
      return staticEndpoints(parsed.endpoints);
    case 'kubernetes':
      return kubernetes(target, parsed, settings);
    case 'dns':
      return { ...dns(dnsOptions(parsed.host, parsed.port, settings)), name: target };
    case 'plain':
      return plain(target, parsed, settings);
  }
}

/** The reason why EndpointSlices are not watched on a laptop, as text. */
export const noPod = 'this is not a pod with a service account';

/** Creates a resolver that watches EndpointSlices. The code for Kubernetes is loaded only when it is needed. */
async function sliceResolver(
  { service, namespace, port }: DiscoveryService,
  { kubernetes, allowAddresses, family }: TargetSettings,
  onSlices: (count: number) => void,
): Promise<Resolver> {
  const { countedSlices } = await import('./kubernetes/endpoint-slices.js');
  return countedSlices(
    {
      ...kubernetes,
      service,
      ...(namespace !== undefined && { namespace }),
      port,
      allowAddresses,
      ...(family !== undefined && { family }),
    },
    onSlices,
  );
}

/** Creates the resolver for a target that begins with `kubernetes:`. */
function kubernetes(
  name: string,
  { service: { service, namespace }, port }: Target & { kind: 'kubernetes' },
  options: TargetSettings,
): Resolver {
  return deferred(name, () => sliceResolver({ service, namespace, port }, options, () => {}));
}

function plain(
  target: string,
  { host, port }: { readonly host: string; readonly port: number | string },
  options: TargetSettings,
): Resolver {
  const literal = literalAddress(host, options.family === 'IPv6' ? 6 : undefined);
  if (literal !== undefined) {
    if (typeof port === 'string') throw optionError('target', `an address and a port number`, target);
    return { ...staticEndpoints([{ address: literal, port }]), name: target };
  }
  const { host: _host, port: _port, srv: _srv, ...settings } = resolveDnsOptions(dnsOptions(host, port, options));
  const { connections, connectionAgeMs, sliceGraceMs } = options;
  return discovery({
    target,
    host,
    port,
    dns: settings,
    slices: async (service, onSlices) => {
      const { inClusterAvailable } = await import('./kubernetes/index.js');
      // A kubeconfig on this machine is never used unless the options name it: it may belong to another cluster, or have more
      // permissions than the program should.
      const access = ownProperties(options.kubernetes);
      const named = access.apiServer !== undefined || access.kubeConfig !== undefined;
      if (!named && !(await inClusterAvailable(access.inCluster))) return noPod;
      return sliceResolver(service, options, onSlices);
    },
    slots: { connections, connectionAgeMs },
    sliceGraceMs,
  });
}

function dnsOptions(host: string, port: number | string, options: TargetSettings): DnsOptions {
  const { dns: settings, allowAddresses, family } = options;
  return {
    allowAddresses,
    ...settings,
    host,
    ...(typeof port === 'number' ? { port } : { srv: port }),
    ...(family !== undefined && { family: family === 'IPv6' ? 6 : 4 }),
  };
}
