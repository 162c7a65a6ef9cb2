// @ts-check
/**
 * One client in its own process, under the same traffic as all clients of its protocol. Its arguments say which one: `http evenkeel`
 * is created by `http-evenkeel.js`, and `http registered ordinary` by `http-ordinary.js`. Counts answers and reports ten times a second.
 */
import { epochNow, startArrivals } from './arrivals.js';
import { Recorder } from './recorder.js';

/**
 * @typedef {object} ClientContext
 * @property {Readonly<Record<string, number>>} servicePorts where the Service's cluster IP stand-in listens on 127.0.0.1, by
 *   protocol: every connection to it goes to a pod drawn at random
 * @property {string} apiServerUrl
 * @property {string} namespace
 * @property {string} service
 * @property {{ host: string, dnsServer: string, ports: Readonly<Record<string, number>> }} [headless] the name that resolves to
 *   the addresses of all ready pods, who resolves it, and the ports of the pods; absent where pods share an address
 * @property {string} [picker] the name of a picker; evenkeel's default when absent
 */
/** @typedef {{ pod?: string | undefined, error?: string }} Answer who answered, and what was wrong if something was, in a few words */
/**
 * @typedef {object} Client
 * @property {(options: { lane: string, deadlineMs: number }) => Promise<Answer>} ask sends one request; never rejects
 * @property {() => string[]} [setAside] names of the pods it leaves out because of what it saw of them
 */
/** `closed`: called with the code when a long-lived connection is closed. @typedef {(context: ClientContext, closed: (code: number) => void) => Promise<Client>} CreateClient */

/**
 * @typedef {object} Begin
 * @property {'begin'} type
 * @property {number} startAt epoch ms
 * @property {number} perSecond
 * @property {number} seed
 */
/** @typedef {{ type: 'late', until: number }} Late another client was late: what was under way until then (epoch ms) tells about the machine */
/** @typedef {{ type: 'rest' }} Rest sends nothing from now on, until it begins again */
/** @typedef {{ type: 'mark', segment: number, from: number }} Mark */
/** @typedef {{ type: 'prepare', context: ClientContext }} Prepare */

/**
 * @typedef {object} Report
 * @property {'report'} type
 * @property {import('./recorder.js').Tally[]} tallies
 * @property {number} inFlight
 * @property {string[]} setAside
 * @property {number} lateUntil requests due by then (epoch ms) are left out, since the client itself was late
 * @property {number} lateMs how late the client itself sent, at worst, since the last report: the machine is busy
 */

const REPORT_MS = 100;
const DEADLINE_MS = 3_000;
// More than this at once would only lengthen the queue: a request due beyond it is not sent and counts as failed.
const MAX_IN_FLIGHT = 512;

// A client that sends so late measures the machine: what is under way by then, in any client, is left out.
const LATE_MS = 200;

// Sent one by one and not counted, so that no client is measured while Node still compiles it.
const WARM_UP_REQUESTS = 100;
// The first one loads a client's code, which takes seconds on a crowded machine.
const WARM_UP_DEADLINE_MS = 30_000;

const [protocol = 'http', name = 'ordinary', file = name] = process.argv.slice(2);
/** Pods process the requests of each lane separately. */
const lane = `${protocol}/${name}`;
const recorder = new Recorder();
let inFlight = 0;
let lateMs = 0;
/** Requests due by then are left out, epoch ms. */
let lateUntil = 0;

/** The result is the time of one request in the second half, in ms: how fast the machine is right now. @param {Client} client */
async function warmUp(client) {
  const half = WARM_UP_REQUESTS / 2;
  let halfAt = 0;
  for (let index = 0; index < WARM_UP_REQUESTS; index++) {
    if (index === half) halfAt = performance.now();
    const { error } = await client.ask({ lane, deadlineMs: WARM_UP_DEADLINE_MS });
    if (error !== undefined) throw new Error(error);
  }
  return (performance.now() - halfAt) / half;
}

/** @param {Client} client @param {number} dueAt */
async function sendOne(client, dueAt) {
  const segment = recorder.begin(dueAt);
  const now = epochNow();
  lateMs = Math.max(lateMs, now - dueAt);
  if (now - dueAt > LATE_MS) lateUntil = now;
  if (inFlight >= MAX_IN_FLIGHT) {
    if (dueAt <= lateUntil) recorder.leaveOut(segment);
    else recorder.fail(segment, 'not sent, too many in flight');
    return;
  }
  inFlight += 1;
  const { pod, error } = await client.ask({ lane, deadlineMs: DEADLINE_MS });
  inFlight -= 1;
  if (dueAt <= lateUntil) recorder.leaveOut(segment, pod);
  else if (error === undefined) recorder.succeed(segment, pod ?? 'unknown', epochNow() - dueAt);
  else recorder.fail(segment, error, pod);
}

/** @type {Client | undefined} */
let client;
let stopArrivals = () => {};
let reporting = false;

/** @param {Client} own */
function report(own) {
  const tallies = recorder.take();
  const setAside = own.setAside?.() ?? [];
  process.send?.({ type: 'report', tallies, inFlight, setAside, lateUntil, lateMs });
  lateMs = 0;
}

process.on('message', async (/** @type {Prepare | Begin | Late | Rest | Mark} */ message) => {
  if (message.type === 'late') lateUntil = Math.max(lateUntil, message.until);
  if (message.type === 'mark') recorder.mark(message.segment, message.from);
  if (message.type === 'rest') stopArrivals();
  if (message.type === 'prepare') {
    try {
      const module = await import(`./${protocol}-${file}.js`);
      client = await /** @type {CreateClient} */ (module.createClient)(message.context, (code) =>
        recorder.close(code, epochNow()),
      );
      const meanMs = await warmUp(client);
      process.send?.({ type: 'prepared', meanMs });
    } catch (error) {
      process.send?.({ type: 'failed', message: error instanceof Error ? error.message : String(error) });
    }
  }
  if (message.type === 'begin' && client !== undefined) {
    const own = client;
    stopArrivals();
    stopArrivals = startArrivals({ ...message, send: (dueAt) => void sendOne(own, dueAt) });
    if (!reporting) setInterval(() => report(own), REPORT_MS);
    reporting = true;
  }
});
process.on('SIGINT', () => {});
process.on('disconnect', () => process.exit(0));
