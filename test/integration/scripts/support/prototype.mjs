/** Sends a first request in each of several ways while reading a name of `Object.prototype` throws: `node prototype.mjs start`. */
import { createServer, get } from 'node:http';
import { inFlight, peakEwma, reported } from 'evenkeel';
import { createAgent } from 'evenkeel/node-http';
import { createFetch } from 'evenkeel/undici';

const name = process.argv[2] ?? '';
const { stdout } = process;
const server = createServer((_request, answer) => answer.end('ok'));
await new Promise((listening) => server.listen(0, '127.0.0.1', () => listening(undefined)));
const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
const url = `http://localhost:${port}`;

/** @param {() => Promise<number | undefined>} work */
async function whileItThrows(work) {
  Object.defineProperty(Object.prototype, name, {
    configurable: true,
    get() {
      throw new Error(`Object.prototype.${name} was read`);
    },
  });
  try {
    return await work();
  } finally {
    Reflect.deleteProperty(Object.prototype, name);
  }
}

/** @type {Record<string, number | undefined>} */
const statuses = {};
const loads = { 'the default': undefined, inFlight: inFlight(), peakEwma: peakEwma(), reported: reported() };
for (const [way, load] of Object.entries(loads)) {
  const fetchIt = createFetch(url, { load });
  statuses[way] = await whileItThrows(async () => (await fetchIt('/')).status);
  await fetchIt.close();
}
const agent = createAgent(url);
statuses['an Agent'] = await whileItThrows(
  () =>
    new Promise((resolve, reject) => {
      get(url, { agent }, (answer) => {
        answer.resume();
        answer.once('end', () => resolve(answer.statusCode));
      }).once('error', reject);
    }),
);
await agent.close();
server.close();
server.closeAllConnections();
stdout.write(JSON.stringify(statuses));
