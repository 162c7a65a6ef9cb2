/** The metadata of a Kubernetes object as sent over the wire, as far as the test API server reads it. Unknown fields are kept. */
export interface ObjectMetadata {
  /** The object's name, unique in its namespace and kind. */
  readonly name: string;
  /** The namespace to which the object belongs; with the kind and `name` it identifies the object. @defaultValue 'default' */
  readonly namespace?: string;
  /** The object's labels, by which watches select objects, such as `kubernetes.io/service-name`. */
  readonly labels?: Readonly<Record<string, string>>;
  /** The object's annotations, which are kept but not interpreted. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** The object's uid, which differs from that of a later object with this name. */
  readonly uid?: string;
  /** The object's version, set by the store on every write; a writer's value is ignored. */
  readonly resourceVersion?: string;
  readonly [field: string]: unknown;
}

/** What every kind of Kubernetes object has in common; other fields are kept as they are. */
export interface KubernetesObject {
  /** The object's name, namespace and labels. */
  readonly metadata: ObjectMetadata;
  readonly [field: string]: unknown;
}

/** One entry of an EndpointSlice's `endpoints`: a pod. */
export interface SliceEndpoint {
  /** The addresses of the pod, of which clients use the first. */
  readonly addresses: readonly string[];
  /** The pod's state; a missing `ready` or `serving` counts as true. */
  readonly conditions?: { readonly ready?: boolean; readonly serving?: boolean; readonly terminating?: boolean };
  /** The pod's host name, if it has one in DNS. */
  readonly hostname?: string;
  /** The node on which the pod runs. */
  readonly nodeName?: string;
  /** The zone of the pod's node. */
  readonly zone?: string;
  /** The pod itself; its uid tells pods with one address apart. */
  readonly targetRef?: {
    readonly kind?: string;
    readonly name?: string;
    readonly namespace?: string;
    readonly uid?: string;
  };
  /** The zones and nodes whose clients should use the endpoint. */
  readonly hints?: {
    readonly forZones?: readonly { readonly name: string }[];
    readonly forNodes?: readonly { readonly name: string }[];
  };
  readonly [field: string]: unknown;
}

/** One entry of an EndpointSlice's `ports`. */
export interface SlicePort {
  /** The name of the port in the Service; empty for a single port. */
  readonly name?: string;
  /** The number of the pods' port; missing = any. */
  readonly port?: number;
  /** The protocol of the port: `TCP`, `UDP` or `SCTP`; missing = TCP. */
  readonly protocol?: string;
  /** The protocol that the pods speak on the port, such as `kubernetes.io/h2c`. */
  readonly appProtocol?: string;
}

/** A `discovery.k8s.io/v1` EndpointSlice. The controller writes `null` lists for a Service without pods. */
export interface EndpointSliceObject extends KubernetesObject {
  /** `IPv4`, `IPv6` or `FQDN`; a dual-stack Service has slices of two types. @defaultValue 'IPv4' */
  readonly addressType?: string;
  /** The pods of the slice, at most 1,000. */
  readonly endpoints?: readonly SliceEndpoint[] | null;
  /** The ports that all endpoints of the slice have. */
  readonly ports?: readonly SlicePort[] | null;
}

/** A `v1` Service, as far as a client reads it: its port table. */
export interface ServiceObject extends KubernetesObject {
  /** The Service's port table, and `clusterIP`: `None` for a headless Service. */
  readonly spec: {
    readonly ports?: readonly {
      readonly name?: string;
      readonly port: number;
      readonly targetPort?: number | string;
      readonly protocol?: string;
    }[];
    readonly clusterIP?: string;
    readonly [field: string]: unknown;
  };
}

/** The collections that the test API server has. */
export type ResourceName = 'endpointslices' | 'services';

/** How the test API server serves a collection. */
export interface ResourceType {
  readonly name: ResourceName;
  readonly kind: string;
  readonly apiVersion: string;
  /** The API group of the collection; empty for the core group. */
  readonly group: string;
  /** The path of the collection, without a namespace. */
  readonly root: string;
}

export const resourceTypes: Readonly<Record<ResourceName, ResourceType>> = Object.freeze({
  endpointslices: {
    name: 'endpointslices',
    kind: 'EndpointSlice',
    apiVersion: 'discovery.k8s.io/v1',
    group: 'discovery.k8s.io',
    root: '/apis/discovery.k8s.io/v1',
  },
  services: { name: 'services', kind: 'Service', apiVersion: 'v1', group: '', root: '/api/v1' },
});

/** The label that links a slice to its Service. */
export const serviceNameLabel = 'kubernetes.io/service-name';
