/**
 * HTTP clients side by side on the same pods: evenkeel against a hand-written loop over one bare undici Pool per pod,
 * undici's own pools, what people have today (one address that balances per connection), and local proxies.
 *
 *   node --expose-gc test/bench/http.bench.mjs [--quick] [--write]      --write also draws the pictures
 *
 * Takes 15 minutes at most, on two cores; on a slower machine there are fewer visits in a round.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { endpointSlices } from 'evenkeel/kubernetes';
import { createApiServer } from '../servers/index.js';
import { CONNECTIONS_PER_POD, httpClientKinds, names } from './lib/http-clients.mjs';
import { faultSections, playAll } from './lib/http-faults.mjs';
import { healthySections, measureHealthy } from './lib/http-healthy.mjs';
import { Pods } from './lib/pods.mjs';
import { missingProxies, proxyVersions, startProxies } from './lib/proxies.mjs';
import { MIN_ROUNDS } from './lib/rounds.mjs';

const QUICK = process.argv.includes('--quick');
const PODS = 4;
/** In a round: enough for A/A to be as narrow as a verdict asks. */
const VISITS = QUICK ? 1 : 6;
/** For the rounds on healthy pods. Before them half a minute goes by to warm up, and the scenes after them take four. */
const MINUTES = 10;

/** @param {string} name of an installed package */
const version = (name) =>
  `${name} ${JSON.parse(readFileSync(new URL(`../../node_modules/${name}/package.json`, import.meta.url), 'utf8')).version}`;
const progress = (/** @type {string} */ text) => process.stderr.write(`http: ${text}\n`);
const pods = await Pods.start(PODS);
const proxies = await startProxies(pods.ready, 'http');
for (const proxy of proxies) pods.follow(() => proxy.follow(pods.ready));

/** evenkeel finds them as in a cluster: an API server says where they are. */
const api = await createApiServer();
const service = api.service('shop', 'orders', { ports: [{ name: 'http', port: 8080, targetPort: 'http' }] });
const publish = () =>
  service.setPods(
    pods.all.map(({ name, address, port, state }) => ({
      name,
      address,
      ports: { http: port },
      ready: state !== 'starting',
      terminating: state === 'terminating',
    })),
  );
publish();
pods.follow(publish);
const resolver = () =>
  endpointSlices({
    apiServer: api.url,
    namespace: 'shop',
    service: 'orders',
    port: 'http',
    allowAddresses: ['loopback'],
  });

const context = { pods, proxies, resolver };
const kinds = await httpClientKinds({ haveAddresses: pods.haveAddresses, proxies });
const notes = missingProxies.map((note) => `${note}.`);
if (!pods.haveAddresses) notes.push(`Only 127.0.0.1 can be bound here, so "${names.dns}" is missing.`);
if (!kinds.some(({ name }) => name === names.httpOurs)) notes.push('evenkeel/node-http is missing.');
for (const note of notes) progress(note);

const results = await measureHealthy(context, kinds, {
  rounds: QUICK ? 8 : MIN_ROUNDS,
  visits: VISITS,
  minutes: MINUTES,
  progress,
});
const players = kinds.filter(({ healthyOnly }) => healthyOnly !== true);
const scenes = await playAll(context, players, { seconds: QUICK ? 1.5 : 4, progress });
const healthy = healthySections(results, kinds);
const faults = faultSections(scenes, players);

console.log(`## HTTP clients on healthy pods

${PODS} pods as processes of their own, ${CONNECTIONS_PER_POD} connections to each (${PODS * CONNECTIONS_PER_POD} in all for clients with one address), as many callers. GET with a
body of about 250 bytes, read to its end; ${results.measured.rounds} interleaved rounds of ${results.measured.visits} visits to each client. CPU is that of this process
alone: a proxy's own is not in it.
"Balanced per connection": one address, and a pod at random for every connection when it opens, as kube-proxy does; here the
connector does it, so that it costs nothing. Rows of one call style are compared with their like.
POSTs have no body; they are not sent twice, so each waits for a connection that has rested since its last answer.
With ${[version('undici'), version('axios'), ...proxyVersions].join(', ')}.

${[...notes, healthy].join('\n\n')}

![Requests per second](images/benchmark-http-healthy.svg)

## HTTP clients when something is wrong

${faults}

![Failed requests](images/benchmark-http-faults.svg)
`);

if (process.argv.includes('--write')) {
  const image = (/** @type {string} */ name) => new URL(`../../docs/images/${name}`, import.meta.url);
  writeFileSync(image('benchmark-http-healthy.svg'), results.picture());
  writeFileSync(image('benchmark-http-faults.svg'), scenes.picture());
}

for (const proxy of proxies) await proxy.stop();
pods.stop();
await api.close();
