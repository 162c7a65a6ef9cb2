/** Kubernetes objects as sent over the wire, as far as the test API server keeps them. It keeps unknown fields too. */
export interface ObjectMetadata {
  readonly name: string;
  /** @defaultValue 'default' */
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly uid?: string;
  /** Set by the store on every write; a writer's value is ignored. */
  readonly resourceVersion?: string;
  readonly [field: string]: unknown;
}

/** Anything with metadata. */
export interface KubernetesObject {
  readonly metadata: ObjectMetadata;
  readonly [field: string]: unknown;
}

/** One entry of a slice's `endpoints`. */
export interface SliceEndpoint {
  readonly addresses: readonly string[];
  readonly conditions?: { readonly ready?: boolean; readonly serving?: boolean; readonly terminating?: boolean };
  readonly hostname?: string;
  readonly nodeName?: string;
  readonly zone?: string;
  readonly targetRef?: {
    readonly kind?: string;
    readonly name?: string;
    readonly namespace?: string;
    readonly uid?: string;
  };
  readonly hints?: {
    readonly forZones?: readonly { readonly name: string }[];
    readonly forNodes?: readonly { readonly name: string }[];
  };
  readonly [field: string]: unknown;
}

/** One entry of a slice's `ports`. */
export interface SlicePort {
  readonly name?: string;
  readonly port?: number;
  readonly protocol?: string;
  readonly appProtocol?: string;
}

/** A `discovery.k8s.io/v1` EndpointSlice. The controller writes `null` lists for a Service without pods. */
export interface EndpointSliceObject extends KubernetesObject {
  /** @defaultValue 'IPv4' */
  readonly addressType?: string;
  readonly endpoints?: readonly SliceEndpoint[] | null;
  readonly ports?: readonly SlicePort[] | null;
}

/** A `v1` Service, as far as a client reads it: its port table. */
export interface ServiceObject extends KubernetesObject {
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
  /** Empty for the core group. */
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
