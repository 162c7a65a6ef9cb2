/**
 * A fleet over sockets: pods of one core, clients that know nothing of one another, and every arrival through all contenders at once,
 * each against pods of its own.
 *
 *   node test/bench/fleet.bench.mjs [--quick] [--write] [--work=ms]      --write also draws the picture; on a busy machine, longer work
 *                                                                        tells the pods' queues from the machine's
 */
import { writeFileSync } from 'node:fs';
import { seededRng } from 'evenkeel/testing';
import { barChart } from './lib/bar-chart.mjs';
import { startChild } from './lib/children.mjs';
import { SharedCore } from './lib/shared-core.mjs';
import { bootstrapMedian, judgeLimit, quantile } from './lib/statistics.mjs';
import { table, withInterval } from './lib/table.mjs';

const QUICK = process.argv.includes('--quick');
const given = process.argv.find((value) => value.startsWith('--work='))?.slice('--work='.length);
const PODS = 12;
const CLIENTS = 8;
/** Mean work of a call, and the share of all cores that is used. */
const WORK_MS = Number(given ?? 40);
const LOAD = 0.67;
/** The pods do so much of the work one after the other before anything is measured, and in a round. */
const WARM_UP_MS = (QUICK ? 200 : 500) * WORK_MS;
const ROUNDS = QUICK ? 3 : 12;
const ROUND_MS = (QUICK ? 250 : 500) * WORK_MS;
/** Between rounds, until what is new has settled. */
const PAUSE_MS = 3_000;
/** If one in a hundred timers is later than this, the machine is too busy to tell a pod's queue from its own, in ms. */
const LATEST_MS = WORK_MS / 4;
/** A round has a 99th percentile from so many calls on. */
const FEWEST = 300;

const STOCK = 'fetch of undici through kube-proxy';
const AGAIN = `${STOCK}, again`;
const DEFAULT = 'evenkeel';
const REPORTS = 'evenkeel, servers report their load';
const TURNS = 'evenkeel, roundRobin()';

/** @type {readonly { name: string, kind: import('./lib/fleet-contenders.mjs').Placed['kind'], reports?: boolean }[]} */
const contenders = [
  { name: STOCK, kind: 'stock' },
  { name: AGAIN, kind: 'stock' },
  { name: DEFAULT, kind: 'default' },
  { name: REPORTS, kind: 'default', reports: true },
  { name: TURNS, kind: 'roundRobin' },
];

/**
 * @typedef {object} Variant
 * @property {string} title
 * @property {number} idleMs after how long servers close idle connections; 0 = never
 * @property {{ times: number, forMs: number, everyMs: number } | undefined} bursts
 * @property {Readonly<Record<string, number>>} wanted p99 of a contender over that of `STOCK`, at most
 */

/** @type {readonly Variant[]} */
const variants = [
  { title: 'Steady calls', idleMs: 0, bursts: undefined, wanted: { [DEFAULT]: 0.8, [REPORTS]: 0.62 } },
  {
    title: 'Servers close connections that were idle for 5 s',
    idleMs: 5_000,
    bursts: undefined,
    wanted: { [DEFAULT]: 1, [REPORTS]: 1 },
  },
  {
    title: 'Bursts of ten times the rate, 100 ms every 2 s',
    idleMs: 0,
    bursts: { times: 10, forMs: 100, everyMs: 2_000 },
    wanted: { [DEFAULT]: 1, [REPORTS]: 1 },
  },
];

/** Plays one variant. @param {Variant} variant */
async function play(variant) {
  const pods = await Promise.all(
    contenders.map(({ reports }) =>
      startChild('virtual-pods.mjs', [String(PODS), String(variant.idleMs), reports === true ? 'reports' : '']),
    ),
  );
  /** @type {import('./lib/children.mjs').Child[]} */
  const others = [];
  const placed = await Promise.all(
    contenders.map(async ({ kind }, index) => {
      const { said } = /** @type {import('./lib/children.mjs').Child} */ (pods[index]);
      const ports = /** @type {number[]} */ (said.ports);
      if (kind !== 'stock') return { kind, ports };
      const balancer = await startChild('connection-balancer.mjs', ports.map(String));
      others.push(balancer);
      return { kind, ports: [balancer.port] };
    }),
  );
  const clients = await Promise.all(Array.from({ length: CLIENTS }, () => startChild('fleet-client.mjs')));
  const startMs = performance.timeOrigin + performance.now() + 500;
  const rounds = Array.from({ length: ROUNDS }, (_, index) => {
    const fromMs = startMs + WARM_UP_MS + index * (ROUND_MS + PAUSE_MS);
    return { fromMs, untilMs: fromMs + ROUND_MS };
  });
  const perSecond = (LOAD * PODS * 1_000) / WORK_MS / CLIENTS;
  const shares = await Promise.all(
    clients.map(
      ({ process: child }, seed) =>
        new Promise((resolve, reject) => {
          child.once('message', resolve);
          child.once('exit', () => reject(new Error('a client ended')));
          const order = {
            seed: seed + 1,
            contenders: placed,
            perSecond,
            workMs: WORK_MS,
            bursts: variant.bursts,
            rounds,
            startMs,
          };
          child.send(order);
        }),
    ),
  );
  const late = await Promise.all(
    pods.map(
      ({ process: child }) =>
        new Promise((resolve) => {
          child.once('message', (/** @type {any} */ { lateMs }) => resolve(lateMs));
          child.send({ late: true });
        }),
    ),
  );
  for (const child of [...clients, ...others, ...pods]) child.stop();
  return new Outcome(
    /** @type {import('./lib/fleet-client.mjs').FleetShare[]} */ (shares),
    /** @type {number[][]} */ (late).flat(),
  );
}

/** What the calls of all clients showed. */
class Outcome {
  #shares;
  #rng = seededRng(1);
  /** One in a hundred was later, in ms: sending, and answering. */
  sentLateMs;
  answeredLateMs;
  /** Of one queue for all, computed for the same calls. */
  #ideal;

  /** @param {readonly import('./lib/fleet-client.mjs').FleetShare[]} shares @param {readonly number[]} answeredLateMs */
  constructor(shares, answeredLateMs) {
    this.#shares = shares;
    this.sentLateMs = quantile(
      shares.flatMap(({ lateMs }) => lateMs),
      0.99,
    );
    this.answeredLateMs = quantile(answeredLateMs, 0.99);
    this.#ideal = idealQueue(shares.flatMap(({ calls }) => calls));
  }

  /** Whether timers were on time. */
  get canJudge() {
    return this.sentLateMs <= LATEST_MS && this.answeredLateMs <= LATEST_MS;
  }

  /** Of all rounds, in ms. @param {number} contender @param {number} share */
  quantile(contender, share) {
    const latencies = this.#latencies(contender, undefined);
    return latencies.length === 0 ? Number.NaN : quantile(latencies, share);
  }

  /** The same of one queue. @param {number} share */
  idealQuantile(share) {
    return this.#ideal.length === 0 ? Number.NaN : quantile(this.#ideal, share);
  }

  /** @param {number} contender */
  failed(contender) {
    const all = this.#shares.flatMap(({ latencies }) => latencies[contender] ?? []);
    return all.filter(Number.isNaN).length;
  }

  /** p99 over that of another, by round; undefined = there is none. @param {number} contender @param {number} other */
  ratio(contender, other) {
    const rounds = Array.from({ length: ROUNDS }, (_, round) => round).filter((round) =>
      [contender, other].every((who) => this.#latencies(who, round).length >= FEWEST),
    );
    if (rounds.length === 0) return undefined;
    const of = (/** @type {number} */ who, /** @type {number} */ round) => quantile(this.#latencies(who, round), 0.99);
    return bootstrapMedian(
      rounds.map((round) => of(contender, round) / of(other, round)),
      () => this.#rng.next(),
    );
  }

  /** Of one round, or of all; without those that failed. @param {number} contender @param {number | undefined} round */
  #latencies(contender, round) {
    return this.#shares.flatMap(({ calls, latencies }) =>
      (latencies[contender] ?? []).filter((latency, index) => {
        const began = calls[index]?.round ?? -1;
        return !Number.isNaN(latency) && (round === undefined ? began >= 0 : began === round);
      }),
    );
  }
}

/**
 * What one queue would make of the same calls: each goes to the pod with the fewest. No client can, since none sees the others.
 * @param {readonly { atMs: number, workMs: number, round: number }[]} calls
 */
function idealQueue(calls) {
  const cores = Array.from({ length: PODS }, () => new SharedCore());
  /** @type {number[]} */
  const latencies = [];
  for (const { atMs, workMs, round } of calls.toSorted((a, b) => a.atMs - b.atMs)) {
    for (const core of cores) core.advance(atMs);
    const core = cores.reduce((least, one) => (one.running < least.running ? one : least));
    core.take(atMs, workMs, (doneMs) => void (round >= 0 && latencies.push(doneMs - atMs)));
  }
  for (const core of cores) core.advance(Number.POSITIVE_INFINITY);
  return latencies;
}

/** @param {Variant} variant @param {Outcome} outcome */
function section({ title, wanted }, outcome) {
  const indexOf = (/** @type {string} */ name) => contenders.findIndex((one) => one.name === name);
  const stock = indexOf(STOCK);
  const figures = (/** @type {(share: number) => number} */ of) =>
    [0.5, 0.99, 0.999].map((share) => (Number.isNaN(of(share)) ? '–' : of(share).toFixed(0)));
  const rows = [
    ['one ideal queue, computed', ...figures((share) => outcome.idealQuantile(share)), '', '', '', ''],
    ...contenders.map(({ name }, index) => {
      const ratio = index === stock ? undefined : outcome.ratio(index, stock);
      const limit = wanted[name];
      const verdict =
        ratio === undefined || limit === undefined
          ? ''
          : QUICK || !outcome.canJudge
            ? 'not judged'
            : judgeLimit(ratio, limit);
      return [
        name,
        ...figures((share) => outcome.quantile(index, share)),
        String(outcome.failed(index)),
        index === stock ? '1' : ratio === undefined ? '' : withInterval(ratio),
        limit === undefined ? '' : `≤ ${limit.toFixed(2)}`,
        verdict,
      ];
    }),
  ];
  const late = `One timer in a hundred was late by ${outcome.sentLateMs.toFixed(1)} ms in clients and ${outcome.answeredLateMs.toFixed(1)} ms in pods`;
  return `### ${title}

${table(['', 'p50 ms', 'p99 ms', 'p99.9 ms', 'failed', 'p99 : stock', 'wanted', 'verdict'], rows, [7])}

${late}${outcome.canJudge ? '.' : `: with more than ${LATEST_MS} ms nothing is judged.`}`;
}

/** @type {string[]} */
const sections = [];
/** @type {Outcome | undefined} */
let steady;
for (const variant of variants) {
  process.stderr.write(
    `fleet: ${variant.title}, ${Math.round((WARM_UP_MS + ROUNDS * (ROUND_MS + PAUSE_MS)) / 1_000)} s\n`,
  );
  const outcome = await play(variant);
  steady ??= outcome;
  sections.push(section(variant, outcome));
}
console.log(`## A fleet: ${CLIENTS} clients of ${PODS} pods

Pods of one core, which their requests share: real HTTP servers that answer when a computed core would be done. ${CLIENTS} client processes
send calls at random (Poisson), ${Math.round((LOAD * PODS * 1_000) / WORK_MS)} per second in all, with work of ${WORK_MS} ms on average and a long tail (lognormal, σ = 1): ${LOAD * 100} % of the
cores. Every call goes through all contenders at once, each of which has pods of its own. Stock is undici's \`fetch\` to one address,
behind which a pod is drawn for each connection; its connections are drawn anew for each of ${ROUNDS} rounds of ${ROUND_MS / 1_000} s. Ratios are medians of the rounds with
their 95 % intervals. Stock against itself shows how much is chance.

${sections.join('\n\n')}

![99th percentiles of a fleet](images/benchmark-fleet.svg)
`);

if (process.argv.includes('--write') && steady !== undefined) {
  const { canJudge } = steady;
  const bar = (/** @type {string} */ label, /** @type {number} */ value) => ({
    label,
    value,
    note: `${value.toFixed(0)} ms`,
    ours: label === DEFAULT || label === REPORTS,
  });
  const rows = contenders.map(({ name }, index) => bar(name, /** @type {Outcome} */ (steady).quantile(index, 0.99)));
  const picture = barChart({
    title: `${CLIENTS} clients, ${PODS} pods of one core at ${LOAD * 100} %: 99th percentile`,
    subtitle: canJudge ? 'over sockets; shorter is better' : 'over sockets; on a busy machine',
    rows: [
      bar('one ideal queue, computed', steady.idealQuantile(0.99)),
      ...rows.filter(({ label }) => label !== AGAIN),
    ],
  });
  writeFileSync(new URL('../../docs/images/benchmark-fleet.svg', import.meta.url), picture);
}
