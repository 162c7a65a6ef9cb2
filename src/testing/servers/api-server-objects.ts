/** Kubernetes objects as sent over the wire, as far as the test API server keeps them. It keeps unknown fields too. */
export interface ObjectMetadata {
  /** The object's name, unique in its namespace and kind. */
  readonly name: string;
  /** The namespace it belongs to; with its kind and `name` it identifies the object. @defaultValue 'default' */
  readonly namespace?: string;
  /** The object's labels, which watches select by, such as `kubernetes.io/service-name`. */
  readonly labels?: Readonly<Record<string, string>>;
  /** The object's annotations: kept, and not interpreted. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** The object's uid: another object of the same name has a different one. */
  readonly uid?: string;
  /** The object's version, set by the store on every write; a writer's value is ignored. */
  readonly resourceVersion?: string;
  readonly [field: string]: unknown;
}

/** What every kind of object has in common; other fields are kept as they are. */
export interface KubernetesObject {
  /** Its name, namespace and labels. */
  readonly metadata: ObjectMetadata;
  readonly [field: string]: unknown;
}

/** One entry of a slice's `endpoints`. */
export interface SliceEndpoint {
  /** The addresses of one pod: clients use the first. */
  readonly addresses: readonly string[];
  /** The pod's state; a missing `ready` or `serving` counts as true. */
  readonly conditions?: { readonly ready?: boolean; readonly serving?: boolean; readonly terminating?: boolean };
  /** The pod's host name, where it has one in DNS. */
  readonly hostname?: string;
  /** The node the pod runs on. */
  readonly nodeName?: string;
  /** The zone of that node. */
  readonly zone?: string;
  /** The pod behind it; its uid tells pods with one address apart. */
  readonly targetRef?: {
    readonly kind?: string;
    readonly name?: string;
    readonly namespace?: string;
    readonly uid?: string;
  };
  /** The zones and nodes that should use the endpoint. */
  readonly hints?: {
    readonly forZones?: readonly { readonly name: string }[];
    readonly forNodes?: readonly { readonly name: string }[];
  };
  readonly [field: string]: unknown;
}

/** One entry of a slice's `ports`. */
export interface SlicePort {
  /** The Service's name of the port; empty for a single one. */
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
  /** `IPv4`, `IPv6` or `FQDN`; a dual-stack Service has slices of two. @defaultValue 'IPv4' */
  readonly addressType?: string;
  /** The pods, at most 1,000 a slice. */
  readonly endpoints?: readonly SliceEndpoint[] | null;
  /** The ports all of its endpoints have. */
  readonly ports?: readonly SlicePort[] | null;
}

/** A `v1` Service, as far as a client reads it: its port table. */
export interface ServiceObject extends KubernetesObject {
  /** The port table, and `clusterIP`: `None` for a headless Service. */
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

/** The collections the server has. */
export type ResourceName = 'endpointslices' | 'services';

/** What the server knows about a collection. */
export interface ResourceType {
  readonly name: ResourceName;
  readonly kind: string;
  readonly apiVersion: string;
  /** The API group of the collection; empty for the core group. */
  readonly group: string;
  /** The collection's path, without a namespace. */
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
