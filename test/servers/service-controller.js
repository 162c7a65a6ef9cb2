import { isIPv6 } from 'node:net';
import { serviceNameLabel } from './api-store.js';
import { drawIndex } from './time.js';

/**
 * A Service and its pods, written to the test API server as the endpointslice controller writes them: up to 100 endpoints per slice, slices
 * filled where there is room and never rebalanced, one slice per set of port numbers, creates before updates before deletes, and an empty
 * slice with `null` lists if there are no pods.
 */
export class ServiceController {
  /** The namespace of the Service and its slices. */
  namespace;
  /** The Service's name. */
  name;
  #store;
  #rng;
  #maxEndpoints;
  #options;
  #pods = [];
  #slices = [];

  constructor(store, rng, namespace, name, options) {
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
  get pods() {
    return this.#pods;
  }

  /** Replaces all pods of the Service; its slices follow, and every open watch gets the changes. */
  setPods(pods) {
    this.#pods = [...pods];
    this.#sync();
  }

  /** Adds a pod, or replaces the pod with that name. */
  putPod(pod) {
    const exists = this.#pods.some((other) => other.name === pod.name);
    this.setPods(exists ? this.#pods.map((other) => (other.name === pod.name ? pod : other)) : [...this.#pods, pod]);
  }

  /** Changes some properties of a pod; does nothing if there is no pod with that name. */
  updatePod(name, change) {
    this.setPods(this.#pods.map((pod) => (pod.name === name ? { ...pod, ...change } : pod)));
  }

  /** Removes the pod with that name; its endpoint leaves its slice. */
  removePod(name) {
    this.setPods(this.#pods.filter((pod) => pod.name !== name));
  }

  /** Changes the Service's ports; its slices follow. */
  setPorts(ports) {
    this.#options = { ...this.#options, ports };
    this.#writeService();
    this.#sync();
  }

  /** Deletes the Service and its slices. */
  delete() {
    this.#store.delete('services', this.namespace, this.name);
    for (const slice of this.#slices) this.#store.delete('endpointslices', this.namespace, slice.name);
    this.#slices = [];
    this.#pods = [];
  }

  #writeService() {
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

  #sync() {
    const groups = new Map();
    for (const pod of this.#pods.flatMap(entriesOf)) {
      const addressType = isIPv6(pod.address) ? 'IPv6' : 'IPv4';
      const ports = this.#portsOf(pod);
      const key = `${addressType} ${JSON.stringify(ports)}`;
      const group = groups.get(key);
      if (group) group.pods.push(pod);
      else groups.set(key, { addressType, ports, pods: [pod] });
    }
    const created = new Set();
    const updated = new Set();
    const seen = new Set();
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
      const placeholder = {
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
  #distribute(slices, addressType, ports, pods, created, updated) {
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

  #portsOf(pod) {
    const ports = [];
    for (const { name = '', port, targetPort = port, protocol = 'TCP', appProtocol } of this.#options.ports) {
      const number = typeof targetPort === 'string' ? pod.ports?.[targetPort] : (pod.ports?.[name] ?? targetPort);
      // The slice of a pod without the named port omits that port.
      if (number !== undefined) {
        ports.push({ name, port: number, protocol, ...(appProtocol === undefined ? {} : { appProtocol }) });
      }
    }
    return ports;
  }

  #endpointOf(pod) {
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

  #write(slice) {
    const object = {
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

  #sliceName() {
    const letters = 'bcdfghjklmnpqrstvwxz2456789';
    const suffix = Array.from({ length: 5 }, () => letters[drawIndex(this.#rng, letters.length)]).join('');
    return `${this.name}-${suffix}`;
  }
}

/** Returns a pod once for each of its addresses. */
function entriesOf(pod) {
  return pod.otherAddress === undefined ? [pod] : [pod, { ...pod, address: pod.otherAddress }];
}
