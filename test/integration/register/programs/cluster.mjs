/** A Service and what belongs to it: pods, the API server, DNS, and a stand-in for kube-proxy behind its cluster IP. */
import { fork } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createApiServer, createDnsServer } from '../../../servers/index.js';

const PODS = 4;
/** From a pod's listening to the first probe that finds it ready, and how long a pod that leaves serves on, in ms. */
const READINESS_MS = 200;
const GRACE_MS = 1_000;

const program = (path) => fileURLToPath(new URL(path, import.meta.url));

/** The Service orders in namespace shop. Its pods share their ports and have an address each. */
export class Cluster {
  /** What a process in a pod has in its environment. */
  env;
  /** The Service's ports by name. */
  ports;
  token = 'pod-token';
  #folder = mkdtempSync(join(tmpdir(), 'evenkeel-programs-pod-'));
  #api;
  #dns;
  #service;
  #proxy;
  #podPorts = { http: 0, grpc: 0 };
  #started = 0;
  /** @type {Map<string, { child: import('node:child_process').ChildProcess, gone: Promise<void>, address: string, ready: boolean, terminating: boolean }>} */
  #pods = new Map();

  static async start() {
    const cluster = new Cluster();
    const proxy = fork(program('../../../../examples/playground/service-proxy-process.js'), ['http', 'grpc']);
    cluster.#proxy = proxy;
    const { ports } = await new Promise((resolve) => proxy.once('message', resolve));
    cluster.ports = ports;
    const grants = [{ namespace: 'shop', verbs: ['list', 'watch', 'get'], resources: ['endpointslices', 'services'] }];
    cluster.#api = await createApiServer({ tls: true, tokens: { [cluster.token]: grants } });
    cluster.#dns = await createDnsServer();
    for (const namespace of ['shop', 'web']) cluster.#dns.kubernetes.namespaces.add(namespace);
    cluster.#dns.kubernetes.set({
      namespace: 'shop',
      name: 'orders',
      clusterIPs: ['127.0.0.1'],
      ports: Object.entries(ports).map(([name, port]) => ({ name, port })),
    });
    cluster.#service = cluster.#api.service('shop', 'orders', {
      ports: Object.entries(ports).map(([name, port]) => ({ name, port, targetPort: name })),
    });
    cluster.#writeFiles();
    for (let count = 0; count < PODS; count++) await cluster.#startPod(true);
    cluster.#publish();
    return cluster;
  }

  get apiUrl() {
    return this.#api.url;
  }

  /** Requests each pod that lives has had, by name. */
  async counts() {
    const entries = [...this.#pods].map(async ([name, { child }]) => {
      const { served } = await new Promise((resolve, reject) => {
        child.once('message', resolve);
        child.send({ count: true }, (error) => error && reject(error));
      });
      return [name, served];
    });
    return new Map(await Promise.all(entries));
  }

  /** Replaces every pod, one more than wanted at a time; the next step follows when the new one is ready. */
  async roll() {
    const leaving = [];
    for (const name of [...this.#pods.keys()]) {
      const fresh = await this.#startPod(false);
      this.#publish();
      await pause(READINESS_MS);
      fresh.ready = true;
      leaving.push(this.#end(name));
    }
    await Promise.all(leaving);
  }

  async stop() {
    for (const { child } of this.#pods.values()) child.kill();
    this.#proxy.kill();
    await Promise.all([this.#api.close(), this.#dns.close()]);
    rmSync(this.#folder, { recursive: true });
  }

  /** What a cluster mounts into its pods, and the config that says where: outside a cluster that is nowhere. */
  #writeFiles() {
    const file = (name, text) => {
      const path = join(this.#folder, name);
      writeFileSync(path, text);
      return path;
    };
    file('token', this.token);
    file('ca.crt', this.#api.ca);
    const namespacePath = file('namespace', 'web');
    const search = 'search web.svc.cluster.local svc.cluster.local cluster.local\n';
    const resolvConfPath = file('resolv.conf', search);
    this.env = { KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: String(this.#api.port) };
    const discovery = {
      kubernetes: { inCluster: { path: this.#folder, env: this.env } },
      dns: { servers: [this.#dns.address], clusterFiles: { resolvConfPath, namespacePath } },
      allowAddresses: ['loopback'],
    };
    this.env.EVENKEEL_CONFIG = file('config.cjs', `module.exports = { discovery: ${JSON.stringify(discovery)} };\n`);
  }

  async #startPod(ready) {
    const number = this.#started++;
    const address = `127.0.1.${2 + number}`;
    const { http, grpc } = this.#podPorts;
    const child = fork(program('pod.mjs'), [address, String(http), String(grpc)], { execArgv: [] });
    const { ports } = await new Promise((resolve, reject) => {
      child.once('message', resolve);
      child.once('exit', (code) => reject(new Error(`a pod ended with ${code} before it listened`)));
    });
    child.removeAllListeners('exit');
    this.#podPorts = ports;
    const gone = new Promise((resolve) => child.once('exit', resolve));
    const pod = { child, gone, address, ready, terminating: false };
    this.#pods.set(`orders-${number}`, pod);
    return pod;
  }

  async #end(name) {
    const pod = this.#pods.get(name);
    pod.child.send({ end: GRACE_MS });
    pod.ready = false;
    pod.terminating = true;
    this.#publish();
    await pod.gone;
    this.#pods.delete(name);
    this.#publish();
  }

  #publish() {
    const all = [...this.#pods];
    this.#service.setPods(
      all.map(([name, { address, ready, terminating }]) => ({
        name,
        address,
        ports: this.#podPorts,
        ready: ready || terminating,
        terminating,
      })),
    );
    const ready = all.filter(([, pod]) => pod.ready).map(([, { address }]) => address);
    const at = (port) => ready.map((host) => ({ host, port }));
    this.#proxy.send({ type: 'pods', pods: { http: at(this.#podPorts.http), grpc: at(this.#podPorts.grpc) } });
  }
}

/** @param {number} ms */
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
