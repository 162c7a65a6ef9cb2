// @ts-check
/**
 * Everything on one machine: a MariaDB primary, three replicas, an API server for tests in place of Kubernetes, and an application
 * that reads and writes.
 *
 *   node examples/mysql/main.js
 */
import { endpointSlices } from 'evenkeel/kubernetes';
import { application, missing, startServers } from './servers.js';
import { openShop } from './shop.js';

if (missing !== undefined) {
  console.log(missing);
  process.exit(0);
}
const servers = await startServers(3);

/** Not needed in a pod, where a target such as `mysql-read.shop:3306` is enough. @param {string} service */
const slicesOf = (service) =>
  endpointSlices({
    apiServer: servers.apiUrl,
    namespace: 'shop',
    service,
    port: 'mysql',
    allowAddresses: ['loopback'],
  });

const shop = openShop({
  ...application,
  services: {
    primary: { resolver: slicesOf('mysql'), role: 'primary' },
    replica: { resolver: slicesOf('mysql-read'), idempotent: true },
  },
});

/** Waits until the application is connected to this many replicas. @param {number} count */
async function connectedTo(count) {
  await shop.cluster.ready();
  // A replica that failed calls before it died is on standby for a moment after its return.
  const isUsed = ({ state, weight, suspect }) => state === 'ready' && weight > 0 && !suspect;
  const ready = () => replicas().filter(isUsed).length;
  while (ready() !== count) await new Promise((resolve) => setTimeout(resolve, 10));
  // On a busy machine a server that was just connected to is not used at once.
  await new Promise((resolve) => setTimeout(resolve, 100));
}
const replicas = () => shop.cluster.balancers.get('replica')?.snapshot().endpoints ?? [];

let failed = 0;
/** Reads `count` prices, thirty at a time, and counts the answers of each server. @param {number} count */
async function read(count) {
  /** @type {Record<string, number>} */
  const answers = {};
  for (let done = 0; done < count; done += 30) {
    const prices = await Promise.allSettled(Array.from({ length: 30 }, (_, index) => shop.price(index + 1)));
    for (const result of prices) {
      if (result.status === 'rejected') failed++;
      else answers[`server ${result.value.server}`] = (answers[`server ${result.value.server}`] ?? 0) + 1;
    }
  }
  return Object.fromEntries(Object.entries(answers).sort());
}

await connectedTo(3);
console.log('three replicas:         ', await read(900));

const fourth = await servers.scaleUp();
await connectedTo(4);
console.log('a fourth one joined:    ', await read(1_200));

const reading = read(1_800);
await servers.at(1).kill();
console.log('one killed meanwhile:   ', await reading);

await servers.at(1).start();
await connectedTo(4);
console.log('it is back:             ', await read(1_200));

const [more] = await Promise.all([read(1_800), servers.scaleDown(fourth)]);
console.log('one taken away meanwhile:', more);

// The primary turns read-only for two seconds, as when another server takes over.
await shop.order(7, 3);
await servers.at(0).setReadOnly(true);
setTimeout(() => void servers.at(0).setReadOnly(false), 2_000);
const refusal = await shop.order(7, 2).catch((error) => error);
console.log(`primary is read-only:    ${refusal?.code ?? 'nobody noticed'}`);
// The server is on standby now, so the next order waits instead of failing.
await shop.order(7, 2);
const [{ stock }] = await servers.at(0).sql('SELECT stock FROM shop.items WHERE id = 7');
const [{ booked }] = await servers.at(0).sql('SELECT SUM(amount) AS booked FROM shop.orders');
console.log(`stock and orders agree:  ${stock} left of 100, ${booked} ordered`);
console.log(`reads that failed:       ${failed}`);

await shop.cluster.end();
await servers.close();
