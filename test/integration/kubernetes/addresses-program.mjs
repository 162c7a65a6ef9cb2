// Runs inside a network namespace made by `addresses.test.ts`: pods in processes of their own, an API server and a DNS server that know
// both addresses of each, and clients. Prints what happened as one JSON object. argv[2]: `ipv6` or `dual`.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { networkInterfaces } from 'node:os';
import { fileURLToPath } from 'node:url';
import { dns, roundRobin } from 'evenkeel';
import { endpointSlices } from 'evenkeel/kubernetes';
import { createFetch } from 'evenkeel/undici';
import { createApiServer, createDnsServer } from '../../servers/index.js';

const PORT = 8080;
const [, , world] = process.argv;
const podProgram = fileURLToPath(new URL('./address-pod.mjs', import.meta.url));
/** @typedef {ReturnType<typeof createFetch>} Client */

const v4 = (/** @type {number} */ pod) => `10.77.0.${10 + pod}`;
const v6 = (/** @type {number} */ pod) => `fd00::${10 + pod}`;

/** Starts a pod that listens at these addresses. */
async function startPod(/** @type {number} */ pod, /** @type {string[]} */ hosts) {
  const child = fork(podProgram, [`pod-${pod}`, String(PORT), ...hosts]);
  await once(child, 'message');
  return {
    name: `pod-${pod}`,
    /** How many connections it got at each address; closes one first, if asked to. */
    async connections(/** @type {string | undefined} */ close = undefined) {
      const answer = once(child, 'message');
      child.send({ close });
      const [told] = await answer;
      return told.connections;
    },
    stop: () => child.kill('SIGKILL'),
  };
}

/** Awaits a state. */
async function until(/** @type {string} */ what, /** @type {() => boolean | Promise<boolean>} */ holds) {
  for (const endMs = Date.now() + 120_000; !(await holds()); ) {
    if (Date.now() > endMs) throw new Error(`no ${what} in 120 s`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Sends requests one after the other; how many each pod answered. */
async function ask(/** @type {Client} */ client, count = 60) {
  /** @type {Record<string, number>} */
  const served = { failed: 0 };
  for (let request = 0; request < count; request++) {
    try {
      const { name } = /** @type {{ name: string }} */ (await (await client('http://orders.shop/')).json());
      served[name] = (served[name] ?? 0) + 1;
    } catch {
      served.failed = (served.failed ?? 0) + 1;
    }
  }
  return served;
}

const api = await createApiServer({ host: '::1' });

/** Writes the slice of one family with these pods, or deletes it. */
function write(/** @type {'IPv4' | 'IPv6'} */ addressType, /** @type {number[] | undefined} */ pods) {
  const name = `orders-${addressType.toLowerCase()}`;
  if (pods === undefined) {
    api.slices.delete(name, 'shop');
    return;
  }
  api.slices.put({
    metadata: { namespace: 'shop', name, labels: { 'kubernetes.io/service-name': 'orders' } },
    addressType,
    endpoints: pods.map((pod) => ({
      addresses: [addressType === 'IPv4' ? v4(pod) : v6(pod)],
      conditions: { ready: true },
      targetRef: { kind: 'Pod', name: `orders-${pod}`, uid: `uid-${pod}` },
    })),
    ports: [{ name: 'http', port: PORT }],
  });
}

const slices = (/** @type {Partial<import('evenkeel/kubernetes').EndpointSlicesOptions>} */ more = {}) =>
  endpointSlices({ namespace: 'shop', service: 'orders', port: 'http', apiServer: api.url, ...more });
const clientOf = (/** @type {import('evenkeel').Resolver} */ resolver, more = {}) =>
  createFetch('http://orders.shop', { resolver, picker: roundRobin(), ...more });

/** What a client's snapshot says about addresses, by pod. */
const shown = (/** @type {Client} */ client) =>
  Object.fromEntries(
    client.dispatcher.balancer
      .snapshot()
      .endpoints.map(({ name, state, address, otherAddress }) => [
        name,
        otherAddress === undefined ? [state, address] : [state, address, otherAddress],
      ]),
  );
const allReady = (/** @type {Client} */ client, /** @type {number} */ count) => () => {
  const { endpoints } = client.dispatcher.balancer.snapshot();
  return endpoints.length === count && endpoints.every(({ state }) => state === 'ready');
};

/** A host that has no IPv4, and a Service that has both. */
async function onlyIpv6() {
  const pods = await Promise.all([1, 2, 3].map((pod) => startPod(pod, [v6(pod)])));
  write('IPv4', [1, 2, 3]);
  write('IPv6', [1, 2, 3]);
  const bySlices = clientOf(slices());
  await until('three connected pods', allReady(bySlices, 3));
  const server = await createDnsServer({ host: '::1' });
  const addresses = [1, 2, 3].map((pod) => ({ address: [v4(pod), v6(pod)] }));
  server.kubernetes.set({ namespace: 'shop', name: 'orders', ports: [{ name: 'http', port: PORT }], pods: addresses });
  const servers = [server.address];
  const byDns = clientOf(dns({ host: 'orders.shop.svc.cluster.local', port: PORT, servers }));
  await until('three pods by DNS', allReady(byDns, 3));
  /** @type {string[]} */
  const warnings = [];
  const observer = { warned: (/** @type {{ message: string }} */ { message }) => warnings.push(message) };
  const ipv4Alone = clientOf(slices({ family: 'IPv4' }), { waitTimeoutMs: 300 });
  const result = {
    interfaces: Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map(({ family }) => family)),
    slices: await ask(bySlices),
    shown: shown(bySlices),
    dns: await ask(byDns),
    ipv4Alone: await ask(ipv4Alone, 2),
    warnings,
  };
  write('IPv6', undefined);
  const late = clientOf(slices(), { observer });
  await until('the other family', () => Object.keys(shown(late)).length === 3 && warnings.length > 0);
  await late.close();
  await Promise.all([bySlices, byDns, ipv4Alone].map((client) => client.close()));
  for (const pod of pods) pod.stop();
  await server.close();
  return result;
}

/** A host and a Service that have both. */
async function dual() {
  const pods = await Promise.all([1, 2, 3, 4].map((pod) => startPod(pod, [v4(pod), v6(pod)])));
  const [, second, , fourth] = pods;
  const connections = async () =>
    Object.fromEntries(await Promise.all(pods.map(async (pod) => [pod.name, Object.values(await pod.connections())])));
  write('IPv4', [1, 2, 3]);
  write('IPv6', [1, 2, 3]);
  const client = clientOf(slices());
  await until('three connected pods', allReady(client, 3));
  /** @type {Record<string, unknown>} */
  const result = { both: await ask(client), connectionsOfBoth: await connections() };

  // The pod's IPv4 address stops to accept connections.
  await second?.connections(v4(2));
  result.changing = (await ask(client, 9)).failed;
  await until(
    'the second address',
    () => client.dispatcher.balancer.snapshot().endpoints[1]?.address === `[${v6(2)}]:${PORT}`,
  );
  result.second = await ask(client);
  result.shown = shown(client);

  // A fourth pod: the slice of IPv6 is written first, and that of IPv4 once it is in use.
  let most = 0;
  const watched = setInterval(() => {
    most = Math.max(most, client.dispatcher.balancer.snapshot().endpoints.length);
  }, 1);
  write('IPv6', [1, 2, 3, 4]);
  await until('four connected pods', allReady(client, 4));
  await ask(client, 8);
  write('IPv4', [1, 2, 3, 4]);
  await until('its second address', () => shown(client)['orders-4']?.[2] !== undefined);
  result.late = await ask(client, 80);
  result.connectionsOfLate = Object.values((await fourth?.connections()) ?? {});
  clearInterval(watched);
  result.most = most;

  // The Service loses IPv6: what used IPv4 keeps its connections, the fourth pod changes over. The second one has no address left.
  const before = await connections();
  write('IPv6', undefined);
  await until('one address each', () => Object.values(shown(client)).every(([, , other]) => other === undefined));
  await until('the fourth pod', () => shown(client)['orders-4']?.[0] === 'ready');
  result.without = await ask(client, 60);
  const after = await connections();
  result.newConnections = Object.fromEntries(
    Object.keys(after).map((name) => [
      name,
      after[name].map((/** @type {number} */ count, /** @type {number} */ at) => count - before[name][at]),
    ]),
  );
  await client.close();
  for (const pod of pods) pod.stop();
  return { ...result, ...(await rollout()) };
}

/** Every pod of a Service is replaced while requests run, and killed once it has left; the slices are written as the controller does. */
async function rollout() {
  const service = api.service('shop', 'carts', { ports: [{ name: 'http', port: 80, targetPort: PORT }] });
  const entry = (/** @type {number} */ pod) => ({ name: `carts-${pod}`, address: v4(pod), otherAddress: v6(pod) });
  const start = (/** @type {number} */ pod) => startPod(pod, [v4(pod), v6(pod)]);
  let running = await Promise.all([5, 6].map(start));
  service.setPods([5, 6].map(entry));
  const client = clientOf(slices({ service: 'carts' }));
  await until('two connected pods', allReady(client, 2));
  const keys = () => client.dispatcher.balancer.snapshot().endpoints.map(({ key }) => key);
  let isDoubled = false;
  let isOver = false;
  /** @type {Record<string, number>} */
  const served = {};
  const traffic = Promise.all(
    [1, 2, 3, 4].map(async () => {
      while (!isOver) {
        for (const [name, count] of Object.entries(await ask(client, 1))) served[name] = (served[name] ?? 0) + count;
        isDoubled ||= new Set(keys()).size !== keys().length;
      }
    }),
  );
  for (const [old, next] of /** @type {const} */ ([
    [5, 7],
    [6, 8],
  ])) {
    const successor = await start(next);
    service.putPod(entry(next));
    await until('the new pod', () => shown(client)[`carts-${next}`]?.[0] === 'ready');
    service.updatePod(`carts-${old}`, { terminating: true });
    await until('the old pod to leave', () => shown(client)[`carts-${old}`] === undefined);
    service.removePod(`carts-${old}`);
    running[old - 5]?.stop();
    running = [...running, successor];
  }
  await until('requests to the new pods', () => (served['pod-7'] ?? 0) > 20 && (served['pod-8'] ?? 0) > 20);
  isOver = true;
  await traffic;
  await client.close();
  for (const pod of running) pod.stop();
  return { failedInRollout: served.failed, isDoubled };
}

process.stdout.write(JSON.stringify(await (world === 'dual' ? dual() : onlyIpv6())));
await api.close();
