// @ts-check
/** `npm start`: reads the options, starts everything, ends everything. */
import { spawn } from 'node:child_process';
import { actions } from './actions.js';
import { Log } from './log.js';
import { readOptions, USAGE, UsageError } from './options.js';
import { startPageServer } from './page-server.js';
import { createPlayground } from './playground.js';
import { playScenario } from './scenario.js';
import { busiestPod } from './state.js';
import { formatSums, formatTables } from './table.js';
import { startTerminal } from './terminal.js';
import { OutOfTime } from './traffic.js';
import { judge } from './verdict.js';

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

/** @param {Options} options */
async function once(options) {
  const log = new Log();
  log.listen(({ at, text }) => console.error(`${at.toFixed(1).padStart(5)} s  ${text}`));
  const names = options.protocols.map(({ title }) => title).join(', ');
  log.add(`starting ${options.pods} pods and the clients for ${names}`);
  const playground = createPlayground(options, log, fail);
  endings.push(() => playground.close());
  const started = await playground.start(options.protocols).catch((error) => {
    if (!(error instanceof OutOfTime)) throw error;
    console.log(`\nnot judged: this machine is busy: ${error.message}`);
    return [];
  });
  const results = await playScenario(started, options.perSecondOf, (text) => log.add(text));
  const { lost, uneven, notJudged } = judge(
    results.flatMap((result) => result.rows),
    options.picker,
  );
  if (results.length > 0) console.log(`\n${formatTables(results)}\n\n${formatSums(results)}`);
  for (const line of [...lost, ...uneven, ...notJudged]) console.log(line);
  await end(lost.length === 0 ? 0 : 1);
}

/** @param {Options} options */
async function live(options) {
  const log = new Log();
  console.log(`starting ${options.pods} pods and the clients …`);
  const playground = createPlayground(options, log, fail);
  endings.push(() => playground.close());
  await playground.show(options.protocols[0]?.name ?? '');
  let lastLook = performance.now();
  const { state } = playground;
  /** @param {string} name @param {string} [pod] */
  const act = async (name, pod) => {
    lastLook = performance.now();
    const action = Object.hasOwn(actions, name) ? actions[name] : undefined;
    await action?.run(playground, pod ?? (action.needsPod ? busiestPod([state()])?.name : undefined));
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
      act(name).catch((error) => log.add(error instanceof Error ? error.message : String(error)));
    },
    quit: () => void end(0),
  });
  endings.push(() => {
    closeTerminal();
    for (const { protocol, name, requests, errors, cut } of playground.totals()) {
      const cuts = protocol.longLived ? `; ${cut} connections ended without a close frame (1006)` : '';
      console.log(
        `${protocol.title.padEnd(9)} ${name.padEnd(11)}  ${requests} ${protocol.requests}, ${errors} failed${cuts}`,
      );
    }
  });
  if (page && options.open) openBrowser(page.url);

  // Nobody should find traffic still running a week later.
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
