import { checkNumber, checkPort, checkString, optionError } from '../runtime/check.js';
import { ownProperties } from '../runtime/own-properties.js';
import { hostPort, normalizeAddress } from './address.js';
import { Attributes } from './attributes.js';

/** A pod's state according to Kubernetes, with defaults filled in (S5). */
export interface EndpointConditions {
  /**
   * Whether the pod takes new calls: its readiness probe succeeds and it is not terminating, or the Service also publishes pods that are
   * not ready.
   */
  readonly ready: boolean;
  /** Whether the pod's readiness probe succeeds, even if the pod is terminating. */
  readonly serving: boolean;
  /** Whether the pod was told to stop: running calls finish, new ones go to other pods. */
  readonly terminating: boolean;
}

/** A pod's address and port, or two addresses, that may receive calls. Plain frozen data. */
export interface Endpoint {
  /**
   * Identifies the endpoint (U7): `address:port`, and `#uid` if the pod's uid is known. Endpoints with equal keys are the same pod. A pod
   * with two addresses keeps its key when one of them changes, so the key may contain an address that the pod no longer has.
   */
  readonly key: string;
  /**
   * An IP address in canonical form, or a host name. If a pod has two addresses, this is the one that is dialed first, or the one in use
   * (`lease.endpoint`).
   */
  readonly address: string;
  /**
   * The pod's address of the other IP family, which is dialed if no connection to `address` can be opened; undefined if the pod has one
   * address.
   */
  readonly otherAddress: string | undefined;
  /** The port, from 1 to 65535. */
  readonly port: number;
  /** The pod's uid, which tells two pods apart that have had the same address; undefined if the resolver does not know it. */
  readonly uid: string | undefined;
  /** The pod's name or host name, for people; undefined if the resolver does not know it. */
  readonly name: string | undefined;
  /** The zone of the pod, as in the label `topology.kubernetes.io/zone`; undefined if the resolver does not know it, as with DNS. */
  readonly zone: string | undefined;
  /** The name of the node that the pod runs on; undefined if the resolver does not know it. */
  readonly nodeName: string | undefined;
  /**
   * Topology hints by zone: the control plane wants clients in these zones to use this endpoint. The stage `topologyHints` reads them.
   * Empty = no hint, so clients of all zones may use it.
   */
  readonly hintZones: readonly string[];
  /**
   * Topology hints by node: the control plane wants clients on these nodes to use this endpoint. The stage `topologyHints` reads them.
   * Empty = no hint, so clients on all nodes may use it.
   */
  readonly hintNodes: readonly string[];
  /** What Kubernetes says about the pod. Endpoints found by DNS count as ready, because DNS lists no others. */
  readonly conditions: EndpointConditions;
  /** The endpoint's share of traffic relative to others, above 0. It is 1 unless a resolver knows better. */
  readonly weight: number;
  /** Extra metadata that a resolver attached for stages and transports. */
  readonly attributes: Attributes;
}

/** What `createEndpoint` needs to know about an endpoint; everything except address and port has defaults. */
export interface EndpointInit {
  /** An IP address or host name; it is converted to canonical form. */
  readonly address: string;
  /** The port, from 1 to 65535. */
  readonly port: number;
  /** Another IP address of the same pod, which is dialed if no connection to `address` can be opened. @defaultValue none */
  readonly otherAddress?: string | undefined;
  /** The pod's uid, if known. @defaultValue none */
  readonly uid?: string | undefined;
  /** The pod's name or host name, for people. @defaultValue none */
  readonly name?: string | undefined;
  /** The pod's zone, as in the label `topology.kubernetes.io/zone`. @defaultValue none */
  readonly zone?: string | undefined;
  /** The name of the node that the pod runs on. @defaultValue none */
  readonly nodeName?: string | undefined;
  /** The zones whose clients should use this endpoint, for the stage `topologyHints`. @defaultValue []: no hint */
  readonly hintZones?: readonly string[] | undefined;
  /** The nodes whose clients should use this endpoint, for the stage `topologyHints`. @defaultValue []: no hint */
  readonly hintNodes?: readonly string[] | undefined;
  /**
   * The pod's state. Conditions that are left out have the defaults that they have in an EndpointSlice (S5). @defaultValue ready, serving
   * and not terminating
   */
  readonly conditions?: Partial<EndpointConditions> | undefined;
  /** The endpoint's share of traffic relative to others, above 0. @defaultValue 1 */
  readonly weight?: number | undefined;
  /** Extra metadata of the endpoint, for stages and transports. @defaultValue none */
  readonly attributes?: Attributes | undefined;
}

const noHints: readonly string[] = Object.freeze([]);
const readyConditions: EndpointConditions = Object.freeze({ ready: true, serving: true, terminating: false });

/** Creates an endpoint. Throws EVENKEEL_OPTION for an empty address, a port outside 1–65535 or a weight not above 0. */
export function createEndpoint(options: EndpointInit): Endpoint {
  const init = ownProperties(options);
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
    conditions: init.conditions === undefined ? readyConditions : withDefaults(ownProperties(init.conditions)),
    weight,
    attributes: init.attributes ?? Attributes.empty,
  });
}

// Each condition has its own default, even if the others are set or it is present but undefined (S5).
function withDefaults({ ready, serving, terminating }: Partial<EndpointConditions>): EndpointConditions {
  return Object.freeze({ ready: ready ?? true, serving: serving ?? true, terminating: terminating ?? false });
}

/** Returns the endpoint with its other address in front; the endpoint itself if it has only one address. */
export function withOtherFirst(endpoint: Endpoint): Endpoint {
  const { address, otherAddress } = endpoint;
  return otherAddress === undefined
    ? endpoint
    : Object.freeze({ ...endpoint, address: otherAddress, otherAddress: address });
}

/** Returns an endpoint's `address:port`, for messages. */
export function endpointAddress(endpoint: Endpoint): string {
  return hostPort(endpoint.address, endpoint.port);
}

/**
 * Whether `value` was created by `createEndpoint`. A custom resolver or stage may return something else, which would fail in odd places
 * later.
 */
export function isEndpoint(value: Endpoint | null | undefined): boolean {
  return typeof value?.key === 'string' && typeof value.conditions === 'object' && value.attributes !== undefined;
}
