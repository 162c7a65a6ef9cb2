// @ts-check
/** `npm start`: reads the options, starts everything, ends everything. */
import { spawn } from 'node:child_process';
import { actions } from './actions.js';
import { createCluster } from './cluster.js';
import { Log } from './log.js';
import { readOptions, USAGE, UsageError } from './options.js';
import { startPageServer } from './page-server.js';
import { playScenario } from './scenario.js';
import { busiestPod, busyMachineNote, describeState } from './state.js';
import { formatSums, formatTable, judge } from './table.js';
import { startTerminal } from './terminal.js';
import { startTraffic } from './traffic.js';

// The mean work of a pod on one request. At the default rate five pods are a fifth busy, if the work is spread.
const SERVICE_TIME_MS = 5;
// Beyond this share of what the pods can do, chance alone makes queues that say nothing about either client.
const BUSY_RATIO = 0.7;
const SEED = 20_190_401;
const READY_TIMEOUT_MS = 20_000;
const LOOK_MS = 1_000;

/** @typedef {import('./options.js').Options} Options */

/** Things to end, the last begun first. @type {(() => void | Promise<void>)[]} */
const endings = [];
let ending = false;

/** Ends everything and leaves. @param {number} code */
async function end(code) {
  if (ending) return;
  ending = true;
  for (const close of endings.reverse()) {
    try {
      await close();
    } catch (error) {
      console.error(error); // the others are ended all the same
    }
  }
  process.exit(code);
}

/** @param {string} reason */
function fail(reason) {
  // Once the terminal is given back, or nobody would read it.
  endings.unshift(() => console.error(`the playground could not go on: ${reason}`));
  void end(1);
}

/** @param {Options} options @param {Log} log */
async function start(options, log) {
  const capacity = Math.floor((options.pods * 1_000) / SERVICE_TIME_MS);
  if (options.perSecond > capacity * BUSY_RATIO) {
    log.add(
      `${options.pods} pods can answer ${capacity} requests/s of each client: expect queues, or errors, on both sides`,
    );
  }
  const cluster = await createCluster({
    pods: options.pods,
    serviceTimeMs: SERVICE_TIME_MS,
    onEvent: (text) => log.add(text),
    onDeath: fail,
  });
  endings.push(() => cluster.close());
  const deadline = performance.now() + READY_TIMEOUT_MS;
  while (!cluster.settled()) {
    if (performance.now() > deadline) throw new Error(`the pods were not ready in ${READY_TIMEOUT_MS / 1_000} s`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const { serviceUrl, apiServerUrl, namespace, service } = cluster;
  const traffic = await startTraffic({
    context: { serviceUrl, apiServerUrl, namespace, service, ...(options.picker && { picker: options.picker }) },
    perSecond: options.perSecond,
    serviceTimeMs: SERVICE_TIME_MS,
    lowerRate: options.lowerRate,
    seed: SEED,
    onEvent: (text) => log.add(text),
    onDeath: fail,
  });
  endings.push(() => traffic.close());
  return { cluster, traffic };
}

/** @param {Options} options */
async function once(options) {
  const log = new Log();
  log.listen(({ at, text }) => console.error(`${at.toFixed(1).padStart(5)} s  ${text}`));
  log.add(`starting ${options.pods} pods and two clients with ${options.perSecond} requests/s each`);
  const { cluster, traffic } = await start(options, log);
  const rows = await playScenario(cluster, traffic, options.perSecond / traffic.perSecond, (text) => log.add(text));
  const failures = judge(rows, options.picker);
  console.log(`\n${formatTable(rows)}\n\n${formatSums(rows)}`);
  for (const failure of failures) console.error(failure);
  const { ordinary, evenkeel } = traffic.boards;
  const note = busyMachineNote(Math.max(ordinary.latestMs, evenkeel.latestMs));
  if (note !== '') console.error(note);
  await end(failures.length === 0 ? 0 : 1);
}

/** @param {Options} options */
async function live(options) {
  const log = new Log();
  console.log(`starting ${options.pods} pods and two clients …`);
  const { cluster, traffic } = await start(options, log);
  let lastLook = performance.now();
  const state = () => describeState(cluster, traffic);
  /** @param {string} name @param {string} [pod] */
  const act = (name, pod) => {
    lastLook = performance.now();
    const action = actions[name];
    action?.run(cluster, pod ?? (action.needsPod ? busiestPod(state())?.name : undefined));
  };

  const page = options.page
    ? await startPageServer({ port: options.port, state: () => ({ ...state(), log: log.entries }), act })
    : undefined;
  if (page) endings.push(() => page.close());
  const closeTerminal = startTerminal({
    output: process.stdout,
    input: process.stdin,
    state,
    log,
    head: page?.url ?? 'in the terminal only',
    act: (name) => {
      try {
        act(name);
      } catch (error) {
        log.add(error instanceof Error ? error.message : String(error));
      }
    },
    quit: () => void end(0),
  });
  endings.push(() => {
    closeTerminal();
    const { ordinary, evenkeel } = state();
    console.log(`ordinary  ${ordinary.requests} requests, ${ordinary.errors} failed`);
    console.log(`evenkeel  ${evenkeel.requests} requests, ${evenkeel.errors} failed`);
  });
  if (page && options.open) openBrowser(page.url);

  // Nobody should find traffic still running on a machine a week later.
  setInterval(() => {
    if (page !== undefined && page.viewers() > 0) lastLook = performance.now();
    if (performance.now() - lastLook < options.minutes * 60_000) return;
    endings.unshift(() => console.log(`nobody looked for ${options.minutes} minutes, so the playground has ended`));
    void end(0);
  }, LOOK_MS);
}

/** @param {string} url */
function openBrowser(url) {
  const [command = '', ...args] =
    process.platform === 'darwin' ? ['open'] : process.platform === 'win32' ? ['cmd', '/c', 'start', ''] : ['xdg-open'];
  spawn(command, [...args, url], { stdio: 'ignore', detached: true })
    .on('error', () => {}) // the address is on the screen
    .unref();
}

process.on('SIGINT', () => void end(0));
process.on('SIGTERM', () => void end(0));
process.on('SIGHUP', () => void end(0));
process.on('uncaughtException', (error) => fail(error.stack ?? error.message));

try {
  const options = readOptions(process.argv.slice(2));
  if (options.help) console.log(USAGE);
  else await (options.once ? once(options) : live(options));
} catch (error) {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof UsageError) {
    console.error(`${message}\nSee npm start -- --help`);
    process.exit(2);
  }
  fail(message);
}
