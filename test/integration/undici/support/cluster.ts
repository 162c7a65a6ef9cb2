import type { Resolver } from 'evenkeel';
import { endpointSlices } from 'evenkeel/kubernetes';
import { type ApiServer, createApiServer, type ServiceController } from '../../../servers/index.js';
import { Pod, type PodOptions } from '../../../support/pods/pods.js';
import { until } from '../../../support/until.js';
import { Journal } from './journal.js';
import { PROOF } from './proof.js';

/**
 * How long a pod serves on after SIGTERM, and when it is killed if it is still there. Only a proof has a machine to itself:
 * elsewhere what 5 s are enough for would depend on who else is at work on it.
 */
const GRACE_MS = 1_000;
const KILL_AFTER_MS = PROOF ? 5_000 : 20_000;
/** Between the SIGTERM and its slice: both start from the same deletion, and neither waits for the other. */
const SLICE_LAG_MS = 50;
/** From the process's listening to the first probe that finds it ready. */
const READINESS_DELAY_MS = 200;

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** How the pods of the Service are started, and what their port is said to speak. */
export type ClusterPods = Omit<PodOptions, 'name'> & { readonly appProtocol?: string };

/** A place that lists the pods of the Service. */
export interface Listing {
  changed(pods: readonly ListedPod[]): void;
}

export interface ListedPod {
  readonly pod: Pod;
  readonly ready: boolean;
  readonly terminating: boolean;
}

/**
 * The Service `orders` in the namespace `shop`: pods in processes of their own, a kubelet that starts and ends them, an
 * API server that says so in EndpointSlices.
 */
export class Cluster implements AsyncDisposable {
  readonly journal: Journal = new Journal();
  readonly api: ApiServer;
  readonly orders: ServiceController;
  #options: ClusterPods;
  readonly #nextHost: (() => string) | undefined;
  readonly #members = new Map<string, ListedPod>();
  readonly #everyPod: Pod[] = [];
  readonly #listings: Listing[] = [];
  readonly #leaving = new Set<Promise<void>>();
  #started = 0;
  readonly #killed: string[] = [];

  private constructor(api: ApiServer, options: ClusterPods, nextHost: (() => string) | undefined) {
    this.api = api;
    this.#options = { graceMs: GRACE_MS, journal: this.journal.file, ...options };
    this.#nextHost = nextHost;
    const { appProtocol } = options;
    this.orders = api.service('shop', 'orders', {
      ports: [{ name: 'http', port: 8080, targetPort: 'http', ...(appProtocol !== undefined && { appProtocol }) }],
    });
  }

  /** `nextHost` gives every pod an address of its own; without it all are on 127.0.0.1, with a port each. */
  static async start(count: number, options: ClusterPods = {}, nextHost?: () => string): Promise<Cluster> {
    const cluster = new Cluster(await createApiServer(), options, nextHost);
    // One after the other: where all share a port, the first one's is it.
    for (let index = 0; index < count; index++) {
      const pod = await cluster.startPod(nextHost && index > 0 ? { port: cluster.pods[0]?.port as number } : {});
      cluster.set(pod, { ready: true });
    }
    return cluster;
  }

  /** Pods that are to stay: running and not told to leave. */
  get pods(): readonly Pod[] {
    return [...this.#members.values()].filter(({ terminating }) => !terminating).map(({ pod }) => pod);
  }

  /** Pods that had to be killed because they did not leave in time, and what kept them. */
  get killed(): readonly string[] {
    return this.#killed;
  }

  /** Pods that are started from now on differ in this. */
  startPodsWith(options: ClusterPods): void {
    this.#options = { ...this.#options, ...options };
  }

  resolver(): Resolver {
    return endpointSlices({
      apiServer: this.api.url,
      namespace: 'shop',
      service: 'orders',
      port: 'http',
      allowAddresses: ['loopback'],
    });
  }

  /** Has another place follow the pods. */
  list(listing: Listing): void {
    this.#listings.push(listing);
    listing.changed([...this.#members.values()]);
  }

  /** Starts a pod; it is not listed before `set`. */
  async startPod(more: Partial<PodOptions> = {}): Promise<Pod> {
    const host = this.#nextHost?.();
    const pod = await Pod.start({
      ...this.#options,
      ...(host !== undefined && { host }),
      name: `pod-${this.#started++}`,
      ...more,
    });
    this.#everyPod.push(pod);
    return pod;
  }

  /** Writes what is known of a pod into the slices. */
  set(pod: Pod, { ready, terminating = false }: { readonly ready: boolean; readonly terminating?: boolean }): void {
    this.#members.set(pod.name, { pod, ready, terminating });
    this.orders.putPod({
      name: pod.name,
      address: pod.host,
      ports: { http: pod.port },
      ready,
      terminating,
    });
    this.#changed();
  }

  remove(pod: Pod): void {
    this.#members.delete(pod.name);
    this.orders.removePod(pod.name);
    this.#changed();
  }

  /** A new pod: starts, is listed as not ready, then as ready. */
  async addPod(more: Partial<PodOptions> = {}): Promise<Pod> {
    const pod = await this.startPod(more);
    this.set(pod, { ready: false });
    await pause(READINESS_DELAY_MS);
    this.set(pod, { ready: true });
    return pod;
  }

  /** Deletes a pod as a kubelet and the endpointslice controller do. Resolves when it is gone. */
  async endPod(pod: Pod): Promise<void> {
    const ending = this.#end(pod);
    this.#leaving.add(ending);
    await ending;
    this.#leaving.delete(ending);
  }

  /** Replaces every pod: one more than wanted (surge 1), the next step when the new one is ready. */
  async roll(): Promise<void> {
    for (const old of this.pods) {
      await this.addPod(old.host === '127.0.0.1' ? {} : { port: old.port });
      void this.endPod(old);
    }
    await until('the old pods are gone', () => this.#leaving.size === 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#everyPod.map((pod) => pod[Symbol.asyncDispose]()));
    await this.api.close();
    this.journal[Symbol.dispose]();
  }

  async #end(pod: Pod): Promise<void> {
    const member = this.#members.get(pod.name);
    if (member !== undefined) this.#members.set(pod.name, { ...member, terminating: true });
    // Its probe still passes: it serves.
    const publish = (): void => this.set(pod, { ready: true, terminating: true });
    // The pod is a process of its own, and does not wait. Where others keep this one from running, its slice would be written, or
    // read, after the pod has gone: that says nothing about a client that hears in time.
    if (PROOF) pod.terminate();
    else publish();
    await pause(SLICE_LAG_MS);
    if (PROOF) publish();
    else pod.terminate();
    const timer = setTimeout(() => {
      void this.#kill(pod);
    }, KILL_AFTER_MS);
    await pod.exited;
    clearTimeout(timer);
    this.remove(pod);
  }

  async #kill(pod: Pod): Promise<void> {
    // It may leave in this very moment, or have left while we were busy.
    const stats = await Promise.race([pod.stats().catch(() => {}), pod.exited]);
    if (stats) this.#killed.push(`${pod.name} with ${stats.open} connections after ${stats.requests} requests`);
    await pod.kill();
  }

  #changed(): void {
    const members = [...this.#members.values()];
    for (const listing of this.#listings) listing.changed(members);
  }
}
