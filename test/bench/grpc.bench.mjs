/**
 * gRPC channels side by side on the same pods: evenkeel against grpc-js's own round_robin, and pick_first for the ground
 * everything stands on; and what a local proxy makes of the same calls. Each channel has a process of its own, replaced by a fresh one
 * every few rounds: two processes of the same program differ by more than the channels do.
 *
 *   node test/bench/grpc.bench.mjs [--quick]      seven minutes on two cores
 */
import { once } from 'node:events';
import { startChild } from './lib/children.mjs';
import { missingProxies, proxyVersions, startProxies } from './lib/proxies.mjs';
import { figureTable, ratioTable } from './lib/ratio-table.mjs';
import { measure } from './lib/rounds.mjs';
import { grouped, table } from './lib/table.mjs';

const QUICK = process.argv.includes('--quick');
const ROUNDS = QUICK ? 8 : 60;
const VISITS = QUICK ? 1 : 2;
/** Visits after which a channel gets a fresh process. */
const PROCESS_VISITS = QUICK ? 4 : 10;
const PODS = 4;
const CONCURRENCY = 32;
const CALLS = 3_000;
const WARM_UP_CALLS = 15_000;
const SPREAD_CALLS = QUICK ? 4_000 : 40_000;

const progress = (/** @type {string} */ text) => process.stderr.write(`grpc: ${text}\n`);
const pods = await Promise.all(Array.from({ length: PODS }, (_, index) => startChild('grpc-pod.mjs', [String(index)])));
const ports = pods.map(({ port }) => port);
const proxies = await startProxies(
  pods.map(({ port }) => ({ address: '127.0.0.1', port })),
  'grpc',
);
for (const note of missingProxies) progress(note);

/** A channel in a process of its own. */
class ChannelProcess {
  #settings;
  /** @type {import('./lib/children.mjs').Child | undefined} */
  #child;
  #visits = 0;

  /** @param {string} channel as for `grpc-client.mjs` @param {readonly number[]} ports */
  constructor(channel, ports) {
    this.#settings = JSON.stringify({ channel, ports });
  }

  /** One visit. */
  run = async () => {
    if (this.#visits++ % PROCESS_VISITS === 0) await this.#renew();
    return this.#ask({ requests: CALLS });
  };

  /** How many calls each pod has. @returns {Promise<number[]>} */
  spread() {
    return this.#ask({ requests: SPREAD_CALLS, isSpread: true });
  }

  stop() {
    this.#child?.stop();
  }

  async #renew() {
    this.#child?.stop();
    this.#child = await startChild('grpc-client.mjs', [this.#settings], ['--expose-gc']);
    await this.#ask({ requests: WARM_UP_CALLS });
  }

  /** @param {{ requests: number, isSpread?: boolean }} what @returns {Promise<any>} */
  async #ask(what) {
    const { process } = /** @type {import('./lib/children.mjs').Child} */ (this.#child);
    const answered = once(process, 'message');
    process.send({ ...what, concurrency: CONCURRENCY });
    const [answer] = await answered;
    return answer;
  }
}

const ROUND_ROBIN = 'grpc-js round_robin';
const OURS = 'evenkeel, roundRobin()';
const OURS_DEFAULT = 'evenkeel, as it comes';
const PICK_FIRST = 'grpc-js pick_first';
const channels = new Map([
  [ROUND_ROBIN, new ChannelProcess('round_robin', ports)],
  [OURS, new ChannelProcess('roundRobin', ports)],
  [OURS_DEFAULT, new ChannelProcess('default', ports)],
  [PICK_FIRST, new ChannelProcess('pick_first', ports)],
]);
const proxied = proxies.map(({ name, port }) => {
  const row = `grpc-js pick_first, through ${name}`;
  channels.set(row, new ChannelProcess('pick_first', [port]));
  return row;
});
const again = new ChannelProcess('round_robin', ports);

const [baseline, ...subjects] = [...channels].map(([name, { run }]) => ({ name, run }));
const results = await measure({
  baseline: { .../** @type {import('./lib/rounds.mjs').Subject} */ (baseline), again: again.run },
  subjects,
  rounds: ROUNDS,
  visits: VISITS,
  warmUp: 0,
  progress: (round) => progress(`round ${round} of ${ROUNDS}`),
});

const spread = [];
for (const [name, channel] of channels) {
  const perPod = await channel.spread();
  spread.push([name, (Math.max(...perPod) / (SPREAD_CALLS / perPod.length)).toFixed(4), perPod.map(String).join(' ')]);
}

console.log(`## gRPC: unary calls

${PODS} pods as processes of their own, one connection to each, ${CONCURRENCY} callers, a request of 100 bytes and an answer of 250.
${grouped(CALLS)} calls a visit, ${results.rounds} interleaved rounds of ${VISITS} visits. Each channel is a process of its own, replaced every ${PROCESS_VISITS / VISITS} rounds by a fresh one that
makes ${grouped(WARM_UP_CALLS)} calls to warm up; A/A are two such processes with the same channel. Each has one more call that stays
open, as a channel in use has. pick_first has all its calls on one connection: to one pod, or to a proxy, whose own CPU is
not counted${proxyVersions.length > 0 ? ` (${proxyVersions.join(', ')})` : ''}.

${[...missingProxies.map((note) => `${note}.`), figureTable(results, [...channels.keys()])].join('\n\n')}

${ratioTable(results, [
  { name: OURS, against: ROUND_ROBIN, figure: 'perSecond', atLeast: 1 },
  { name: OURS, against: ROUND_ROBIN, figure: 'cpuUs', atMost: 1 },
  { name: OURS_DEFAULT, against: ROUND_ROBIN, figure: 'perSecond', atLeast: 0.97 },
  { name: OURS_DEFAULT, against: ROUND_ROBIN, figure: 'cpuUs', atMost: 1.05 },
  ...proxied.flatMap(
    (proxy) =>
      /** @type {const} */ ([
        { name: OURS_DEFAULT, against: proxy, figure: 'perSecond', atLeast: 1 },
        { name: OURS_DEFAULT, against: proxy, figure: 'p99', atMost: 1 },
      ]),
  ),
])}

Spread over ${grouped(SPREAD_CALLS)} calls:

${table(['channel', 'max / mean', 'calls per pod'], spread, [2])}
`);

for (const channel of [...channels.values(), again]) channel.stop();
for (const proxy of proxies) await proxy.stop();
for (const pod of pods) pod.stop();
