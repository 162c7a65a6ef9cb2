import { checkNumber, checkPort, checkString, optionError } from '../runtime/check.js';
import { hostPort, normalizeAddress } from './address.js';
import { Attributes } from './attributes.js';

/** A pod's state according to Kubernetes, with defaults filled in (S5). */
export interface EndpointConditions {
  /** It takes new calls: its readiness probe passes and it is not terminating, or the Service publishes pods that are not ready. */
  readonly ready: boolean;
  /** Its readiness probe passes, whether or not it is terminating. */
  readonly serving: boolean;
  /** Its pod was told to stop: running calls finish, new ones go elsewhere. */
  readonly terminating: boolean;
}

/** A pod's address, or two, that may receive calls: plain frozen data. */
export interface Endpoint {
  /**
   * Identity (U7): `address:port`, and `#uid` if the pod's uid is known. Two endpoints with the same key are the same pod. A pod keeps
   * its key while it has two addresses and either changes, so the key may contain an address it no longer has.
   */
  readonly key: string;
  /** Canonical IP text, or a host name. Of two addresses the one that is dialed first, or the one in use (`lease.endpoint`). */
  readonly address: string;
  /** The same pod's address of the other IP family, which is dialed if `address` cannot be connected to. */
  readonly otherAddress: string | undefined;
  /** The port, from 1 to 65535. */
  readonly port: number;
  /** The pod's uid: the same address with another uid is another pod. */
  readonly uid: string | undefined;
  /** The pod's name or host name, for people. */
  readonly name: string | undefined;
  /** The zone of the pod, as in the label `topology.kubernetes.io/zone`; undefined if the resolver does not know it, as with DNS. */
  readonly zone: string | undefined;
  /** The node the pod runs on; undefined where the resolver does not know it. */
  readonly nodeName: string | undefined;
  /** Zones and nodes that should use this endpoint (topology hints); empty if there are none. */
  readonly hintZones: readonly string[];
  /** Nodes that should use this endpoint (topology hints); empty if there are none. */
  readonly hintNodes: readonly string[];
  /** What Kubernetes says about the pod. Endpoints found by DNS are ready, because DNS lists no others. */
  readonly conditions: EndpointConditions;
  /** Share of traffic relative to other endpoints, above 0. 1 unless a resolver knows better. */
  readonly weight: number;
  /** Extra metadata that a resolver attached for stages and transports. */
  readonly attributes: Attributes;
}

/** The description of an endpoint; all but address and port have defaults. */
export interface EndpointInit {
  /** IP address or host name; converted to its canonical form. */
  readonly address: string;
  /** The port, from 1 to 65535. */
  readonly port: number;
  /** Another IP address of the same pod, which is dialed if `address` cannot be connected to. @defaultValue none */
  readonly otherAddress?: string | undefined;
  /** The pod's uid, where it is known. @defaultValue none */
  readonly uid?: string | undefined;
  /** The pod's name or host name, for people. @defaultValue none */
  readonly name?: string | undefined;
  /** As `topology.kubernetes.io/zone`. @defaultValue none */
  readonly zone?: string | undefined;
  /** The node the pod runs on. @defaultValue none */
  readonly nodeName?: string | undefined;
  /** Zones that should use it. @defaultValue [] */
  readonly hintZones?: readonly string[] | undefined;
  /** Nodes that should use it. @defaultValue [] */
  readonly hintNodes?: readonly string[] | undefined;
  /** Missing conditions default as in a slice (S5). @defaultValue ready, serving and not terminating */
  readonly conditions?: Partial<EndpointConditions> | undefined;
  /** Share of traffic relative to other endpoints, above 0. @defaultValue 1 */
  readonly weight?: number | undefined;
  /** Extra metadata for stages and transports. @defaultValue none */
  readonly attributes?: Attributes | undefined;
}

const noHints: readonly string[] = Object.freeze([]);
const readyConditions: EndpointConditions = Object.freeze({ ready: true, serving: true, terminating: false });

/** Creates an endpoint. Throws EVENKEEL_OPTION for an empty address, a port outside 1–65535 or a weight not above 0. */
export function createEndpoint(init: EndpointInit): Endpoint {
  if (typeof init !== 'object' || init === null) throw optionError('endpoint', 'an object with address and port', init);
  const address = normalizeAddress(checkString('address', init.address));
  const port = checkPort('port', init.port);
  const weight = checkNumber('weight', init.weight, 1, { above: 0 });
  const other = init.otherAddress === undefined ? undefined : checkString('otherAddress', init.otherAddress);
  const otherAddress = other === undefined ? undefined : normalizeAddress(other);
  return Object.freeze({
    key: init.uid ? `${hostPort(address, port)}#${init.uid}` : hostPort(address, port),
    address,
    otherAddress: otherAddress === address ? undefined : otherAddress,
    port,
    uid: init.uid,
    name: init.name,
    zone: init.zone,
    nodeName: init.nodeName,
    hintZones: init.hintZones?.length ? Object.freeze([...init.hintZones]) : noHints,
    hintNodes: init.hintNodes?.length ? Object.freeze([...init.hintNodes]) : noHints,
    conditions: init.conditions === undefined ? readyConditions : withDefaults(init.conditions),
    weight,
    attributes: init.attributes ?? Attributes.empty,
  });
}

// Each condition is looked at alone: one that is present but undefined is missing too (S5).
function withDefaults({ ready, serving, terminating }: Partial<EndpointConditions>): EndpointConditions {
  return Object.freeze({ ready: ready ?? true, serving: serving ?? true, terminating: terminating ?? false });
}

/** The same endpoint with its other address first; itself if it has one only. */
export function withOtherFirst(endpoint: Endpoint): Endpoint {
  const { address, otherAddress } = endpoint;
  return otherAddress === undefined
    ? endpoint
    : Object.freeze({ ...endpoint, address: otherAddress, otherAddress: address });
}

/** `address:port` of an endpoint, for messages. */
export function endpointAddress(endpoint: Endpoint): string {
  return hostPort(endpoint.address, endpoint.port);
}

/**
 * Whether `createEndpoint` created it. Resolvers and stages may be custom; an incomplete endpoint would fail in odd places
 * later.
 */
export function isEndpoint(value: Endpoint | null | undefined): boolean {
  return typeof value?.key === 'string' && typeof value.conditions === 'object' && value.attributes !== undefined;
}
