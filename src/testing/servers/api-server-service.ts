import { isIPv6 } from 'node:net';
import { drawIndex, type Rng } from '../../runtime/rng.js';
import {
  type EndpointSliceObject,
  type SliceEndpoint,
  type SlicePort,
  serviceNameLabel,
} from './api-server-objects.js';
import type { ObjectStore } from './api-server-store.js';

/** A port of a Service in the test API server. */
export interface ServicePort {
  /** The name of the port; needed if a Service has several ports. @defaultValue '' */
  readonly name?: string;
  /** The Service's own port, from 1 to 65535. */
  readonly port: number;
  /** The pods' port: a number, or the name of one of their ports. @defaultValue `port` */
  readonly targetPort?: number | string;
  /** `TCP`, `UDP` or `SCTP`. @defaultValue 'TCP' */
  readonly protocol?: string;
  /** The protocol that the pods speak on the port, such as `kubernetes.io/h2c`. */
  readonly appProtocol?: string;
}

/** A pod behind a Service in the test API server. */
export interface Pod {
  /** The pod's name, unique in the Service. */
  readonly name: string;
  /** The pod's IP address; IPv4 and IPv6 pods go into slices of their own. */
  readonly address: string;
  /** The pod's IP address of the other family, in a dual-stack cluster: the pod is then in a slice of each family, with one uid. */
  readonly otherAddress?: string;
  /**
   * The pod's uid, which tells it from a later pod with its name or address. @defaultValue derived from the name, so that a pod with the
   * same name counts as the same pod
   */
  readonly uid?: string;
  /** Whether the pod's readiness probe passes. @defaultValue true */
  readonly ready?: boolean;
  /** Whether the pod's deletion has been requested. @defaultValue false */
  readonly terminating?: boolean;
  /** The pod's zone, as `topology.kubernetes.io/zone` of its node. */
  readonly zone?: string;
  /** The node on which the pod runs. */
  readonly nodeName?: string;
  /**
   * The pod's own ports by name, for Services whose `targetPort` is a name; a port here also overrides the number of the Service port with
   * its name.
   */
  readonly ports?: Readonly<Record<string, number>>;
}

/** The properties of a Service in the test API server. */
export interface ServiceOptions {
  /** The Service's ports. If there are none, endpoints are listed without a port. */
  readonly ports: readonly ServicePort[];
  /** Whether the Service has no address of its own (`clusterIP: None`). @defaultValue false */
  readonly headless?: boolean;
  /** Whether pods are published as ready regardless of their probes. @defaultValue false */
  readonly publishNotReadyAddresses?: boolean;
  /** Adds topology hints: each endpoint for its own zone, or also for its own node. @defaultValue none */
  readonly trafficDistribution?: 'PreferSameZone' | 'PreferSameNode';
  /** How many endpoints one slice holds. @defaultValue 100, at most 1,000 */
  readonly maxEndpointsPerSlice?: number;
}

interface Slice {
  readonly name: string;
  readonly addressType: 'IPv4' | 'IPv6';
  readonly ports: readonly SlicePort[];
  /** The endpoints by pod name. */
  readonly endpoints: Map<string, SliceEndpoint>;
}

/**
 * A Service and its pods, written to the test API server as the endpointslice controller writes them: up to 100 endpoints per slice, slices
 * filled where there is room and never rebalanced, one slice per set of port numbers, creates before updates before deletes, and an empty
 * slice with `null` lists if there are no pods.
 */
export class ServiceController {
  /** The namespace of the Service and its slices. */
  readonly namespace: string;
  /** The Service's name. */
  readonly name: string;
  readonly #store: ObjectStore;
  readonly #rng: Rng;
  readonly #maxEndpoints: number;
  #options: ServiceOptions;
  #pods: readonly Pod[] = [];
  #slices: Slice[] = [];

  constructor(store: ObjectStore, rng: Rng, namespace: string, name: string, options: ServiceOptions) {
    this.#store = store;
    this.#rng = rng;
    this.namespace = namespace;
    this.name = name;
    this.#options = options;
    this.#maxEndpoints = options.maxEndpointsPerSlice ?? 100;
    this.#writeService();
    this.#sync();
  }

  /** The Service's pods as last set, in order. */
  get pods(): readonly Pod[] {
    return this.#pods;
  }

  /** Replaces all pods of the Service; its slices follow, and every open watch gets the changes. */
  setPods(pods: readonly Pod[]): void {
    this.#pods = [...pods];
    this.#sync();
  }

  /** Adds a pod, or replaces the pod with that name. */
  putPod(pod: Pod): void {
    const exists = this.#pods.some((other) => other.name === pod.name);
    this.setPods(exists ? this.#pods.map((other) => (other.name === pod.name ? pod : other)) : [...this.#pods, pod]);
  }

  /** Changes some properties of a pod; does nothing if there is no pod with that name. */
  updatePod(name: string, change: Partial<Pod>): void {
    this.setPods(this.#pods.map((pod) => (pod.name === name ? { ...pod, ...change } : pod)));
  }

  /** Removes the pod with that name; its endpoint leaves its slice. */
  removePod(name: string): void {
    this.setPods(this.#pods.filter((pod) => pod.name !== name));
  }

  /** Changes the Service's ports; its slices follow. */
  setPorts(ports: readonly ServicePort[]): void {
    this.#options = { ...this.#options, ports };
    this.#writeService();
    this.#sync();
  }

  /** Deletes the Service and its slices. */
  delete(): void {
    this.#store.delete('services', this.namespace, this.name);
    for (const slice of this.#slices) this.#store.delete('endpointslices', this.namespace, slice.name);
    this.#slices = [];
    this.#pods = [];
  }

  #writeService(): void {
    const ports = this.#options.ports.map(({ name = '', port, targetPort = port, protocol = 'TCP' }) => ({
      ...(name === '' ? {} : { name }),
      port,
      targetPort,
      protocol,
    }));
    this.#store.put('services', {
      metadata: { name: this.name, namespace: this.namespace },
      spec: {
        ports,
        clusterIP: this.#options.headless ? 'None' : '10.96.0.10',
        type: 'ClusterIP',
        selector: { app: this.name },
      },
    });
  }

  #sync(): void {
    const groups = new Map<string, { addressType: Slice['addressType']; ports: readonly SlicePort[]; pods: Pod[] }>();
    for (const pod of this.#pods.flatMap(entriesOf)) {
      const addressType = isIPv6(pod.address) ? 'IPv6' : 'IPv4';
      const ports = this.#portsOf(pod);
      const key = `${addressType} ${JSON.stringify(ports)}`;
      const group = groups.get(key);
      if (group) group.pods.push(pod);
      else groups.set(key, { addressType, ports, pods: [pod] });
    }
    const created = new Set<Slice>();
    const updated = new Set<Slice>();
    const seen = new Set<Slice>();
    for (const [key, { addressType, ports, pods }] of groups) {
      const slices = this.#slices.filter((slice) => `${slice.addressType} ${JSON.stringify(slice.ports)}` === key);
      for (const slice of slices) seen.add(slice);
      this.#distribute(slices, addressType, ports, pods, created, updated);
    }
    const deleted = this.#slices.filter(
      (slice) => !created.has(slice) && (!seen.has(slice) || slice.endpoints.size === 0),
    );
    this.#slices = this.#slices.filter((slice) => !deleted.includes(slice));
    if (this.#slices.length === 0) {
      // The last slice stays as a placeholder instead of being deleted, as the real controller does it.
      const placeholder: Slice = {
        name: deleted.shift()?.name ?? this.#sliceName(),
        addressType: 'IPv4',
        ports: [],
        endpoints: new Map(),
      };
      this.#slices.push(placeholder);
      updated.add(placeholder);
    }
    for (const slice of created) this.#write(slice);
    for (const slice of updated) if (this.#slices.includes(slice) && !created.has(slice)) this.#write(slice);
    for (const slice of deleted) this.#store.delete('endpointslices', this.namespace, slice.name);
  }

  /** Puts pods into the slices of their group: where they already are, otherwise where there is room, otherwise into a new slice. */
  #distribute(
    slices: Slice[],
    addressType: Slice['addressType'],
    ports: readonly SlicePort[],
    pods: readonly Pod[],
    created: Set<Slice>,
    updated: Set<Slice>,
  ): void {
    const wanted = new Map(pods.map((pod) => [pod.name, this.#endpointOf(pod)]));
    for (const slice of slices) {
      for (const [name, endpoint] of slice.endpoints) {
        const next = wanted.get(name);
        if (next === undefined) slice.endpoints.delete(name);
        else slice.endpoints.set(name, next);
        wanted.delete(name);
        if (next === undefined || JSON.stringify(next) !== JSON.stringify(endpoint)) updated.add(slice);
      }
    }
    for (const [name, endpoint] of wanted) {
      let slice = slices.find((candidate) => candidate.endpoints.size < this.#maxEndpoints);
      if (slice === undefined) {
        slice = { name: this.#sliceName(), addressType, ports, endpoints: new Map() };
        slices.push(slice);
        this.#slices.push(slice);
        created.add(slice);
      }
      slice.endpoints.set(name, endpoint);
      updated.add(slice);
    }
  }

  #portsOf(pod: Pod): readonly SlicePort[] {
    const ports: SlicePort[] = [];
    for (const { name = '', port, targetPort = port, protocol = 'TCP', appProtocol } of this.#options.ports) {
      const number = typeof targetPort === 'string' ? pod.ports?.[targetPort] : (pod.ports?.[name] ?? targetPort);
      // The slice of a pod without the named port omits that port.
      if (number !== undefined) {
        ports.push({ name, port: number, protocol, ...(appProtocol === undefined ? {} : { appProtocol }) });
      }
    }
    return ports;
  }

  #endpointOf(pod: Pod): SliceEndpoint {
    const { ready: probe = true, terminating = false, zone, nodeName } = pod;
    const ready = this.#options.publishNotReadyAddresses === true || (probe && !terminating);
    const byZone = this.#options.trafficDistribution !== undefined && zone !== undefined;
    const byNode = this.#options.trafficDistribution === 'PreferSameNode' && nodeName !== undefined;
    return {
      addresses: [pod.address],
      conditions: { ready, serving: probe, terminating },
      ...(nodeName === undefined ? {} : { nodeName }),
      ...(zone === undefined ? {} : { zone }),
      ...(byZone || byNode
        ? {
            hints: {
              ...(byZone ? { forZones: [{ name: zone }] } : {}),
              ...(byNode ? { forNodes: [{ name: nodeName }] } : {}),
            },
          }
        : {}),
      targetRef: { kind: 'Pod', name: pod.name, namespace: this.namespace, uid: pod.uid ?? `uid-${pod.name}` },
    };
  }

  #write(slice: Slice): void {
    const object: EndpointSliceObject = {
      metadata: {
        name: slice.name,
        namespace: this.namespace,
        labels: {
          [serviceNameLabel]: this.name,
          'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
          ...(this.#options.headless ? { 'service.kubernetes.io/headless': '' } : {}),
        },
      },
      addressType: slice.addressType,
      endpoints: slice.endpoints.size === 0 ? null : [...slice.endpoints.values()],
      ports: slice.ports.length === 0 ? null : slice.ports,
    };
    this.#store.put('endpointslices', object);
  }

  #sliceName(): string {
    const letters = 'bcdfghjklmnpqrstvwxz2456789';
    const suffix = Array.from({ length: 5 }, () => letters[drawIndex(this.#rng, letters.length)]).join('');
    return `${this.name}-${suffix}`;
  }
}

/** Returns a pod once for each of its addresses. */
function entriesOf(pod: Pod): readonly Pod[] {
  return pod.otherAddress === undefined ? [pod] : [pod, { ...pod, address: pod.otherAddress }];
}
