// @ts-check
/**
 * One client in a process of its own: `client-ordinary.js` or `client-evenkeel.js`, whichever is named as the argument,
 * under traffic that is the same for both. Counts what comes back and reports ten times a second.
 */
import { epochNow, startArrivals } from './arrivals.js';
import { Recorder } from './recorder.js';

/**
 * @typedef {object} ClientContext
 * @property {string} serviceUrl the Service's cluster IP: every connection to it goes to a pod drawn at random
 * @property {string} apiServerUrl
 * @property {string} namespace
 * @property {string} service
 * @property {string} [picker] the name of a picker; evenkeel's default when absent
 */
/**
 * @typedef {object} Client
 * @property {(path: string, init: { signal: AbortSignal, headers: Record<string, string> }) => Promise<Response>} send
 * @property {() => string[]} [setAside] names of the pods it leaves out because of what it saw of them
 */
/** @typedef {(context: ClientContext) => Promise<Client>} CreateClient */

/**
 * @typedef {object} Begin
 * @property {'begin'} type
 * @property {number} startAt epoch ms
 * @property {number} perSecond
 * @property {number} seed
 */
/** @typedef {{ type: 'mark', segment: number, from: number }} Mark */
/** @typedef {{ type: 'prepare', context: ClientContext }} Prepare */

/**
 * @typedef {object} Report
 * @property {'report'} type
 * @property {import('./recorder.js').Tally[]} tallies
 * @property {number} inFlight
 * @property {string[]} setAside
 * @property {number} lateMs how late the client itself sent, at worst, since the last report: the machine is busy
 */

const REPORT_MS = 100;
const DEADLINE_MS = 3_000;
// More than this at once would only be a longer queue: a request that is due beyond it is not sent and counts as failed.
const MAX_IN_FLIGHT = 512;

// Sent one by one and not counted, so that neither client is measured while Node still compiles it.
const WARM_UP_REQUESTS = 100;
const PATH = '/v1/orders/42';

const mode = process.argv[2] ?? 'ordinary';
const recorder = new Recorder();
let inFlight = 0;
let lateMs = 0;

const options = () => ({ signal: AbortSignal.timeout(DEADLINE_MS), headers: { 'x-lane': mode } });

/** The result is what one request took in the second half, in ms: how fast the machine is just now. @param {Client} client */
async function warmUp(client) {
  const half = WARM_UP_REQUESTS / 2;
  let halfAt = 0;
  for (let index = 0; index < WARM_UP_REQUESTS; index++) {
    if (index === half) halfAt = performance.now();
    const response = await client.send(PATH, options());
    await response.json();
  }
  return (performance.now() - halfAt) / half;
}

/** @param {Client} client @param {number} dueAt */
async function sendOne(client, dueAt) {
  const segment = recorder.begin(dueAt);
  lateMs = Math.max(lateMs, epochNow() - dueAt);
  if (inFlight >= MAX_IN_FLIGHT) {
    recorder.fail(segment, 'not sent, too many in flight');
    return;
  }
  inFlight += 1;
  try {
    const response = await client.send(PATH, options());
    const { pod } = /** @type {{ pod: string }} */ (await response.json());
    if (response.ok) recorder.succeed(segment, pod, epochNow() - dueAt);
    else recorder.fail(segment, `status ${response.status}`, pod);
  } catch (error) {
    recorder.fail(segment, kindOf(error));
  } finally {
    inFlight -= 1;
  }
}

/** A short name for what went wrong. @param {any} error @returns {string} */
function kindOf(error) {
  if (error?.name === 'TimeoutError') return `no answer in ${DEADLINE_MS / 1000} s`;
  return error?.cause?.code ?? error?.code ?? error?.cause?.message ?? String(error?.message ?? error);
}

/** @type {Client | undefined} */
let client;
process.on('message', async (/** @type {Prepare | Begin | Mark} */ message) => {
  if (message.type === 'mark') recorder.mark(message.segment, message.from);
  if (message.type === 'prepare') {
    try {
      const module = await import(`./client-${mode}.js`);
      client = await /** @type {CreateClient} */ (module.createClient)(message.context);
      const meanMs = await warmUp(client);
      process.send?.({ type: 'prepared', meanMs });
    } catch (error) {
      process.send?.({ type: 'failed', message: error instanceof Error ? error.message : String(error) });
    }
  }
  if (message.type === 'begin' && client !== undefined) {
    const ready = client;
    startArrivals({ ...message, send: (dueAt) => void sendOne(ready, dueAt) });
    setInterval(() => {
      const setAside = ready.setAside?.() ?? [];
      process.send?.({ type: 'report', tallies: recorder.take(), inFlight, setAside, lateMs });
      lateMs = 0;
    }, REPORT_MS);
  }
});
process.on('SIGINT', () => {});
process.on('disconnect', () => process.exit(0));
