/**
 * A fleet over sockets: pods of one core, clients that know nothing of one another, and every arrival through all contenders at once,
 * each against pods of its own.
 */
import { seededRng } from 'evenkeel/testing';
import { startChild } from './children.mjs';
import { SharedCore } from './shared-core.mjs';
import { bootstrapMedian, judgeLimit, quantile } from './statistics.mjs';
import { table, withInterval } from './table.mjs';

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

/** What the name of a contender ends with that is the baseline once more. */
const AGAIN = ', again';
const IDEAL = 'one ideal queue, computed';

/** The fleet in words. */
export const clientsAndPods = `${CLIENTS} clients of ${PODS} pods`;
export const arrivals = `${CLIENTS} client processes
send calls at random (Poisson), ${Math.round((LOAD * PODS * 1_000) / WORK_MS)} per second in all, with work of ${WORK_MS} ms on average and a long tail (lognormal, σ = 1): ${LOAD * 100} % of the
cores. Every call goes through all contenders at once, each of which has pods of its own.`;
export const rounds = `${ROUNDS} rounds of ${ROUND_MS / 1_000} s`;
export const load = `${LOAD * 100} %`;

/**
 * @typedef {object} FleetContender
 * @property {string} name
 * @property {string} kind of those of the protocol
 * @property {boolean} [reports] whether its servers report their load
 *
 * @typedef {object} Variant
 * @property {string} title
 * @property {number} idleMs after how long servers close idle connections; 0 = never
 * @property {{ times: number, forMs: number, everyMs: number } | undefined} bursts
 * @property {Readonly<Record<string, number>>} wanted p99 of a contender over that of the baseline, at most
 */

/** Calls that come evenly. @type {Pick<Variant, 'title' | 'idleMs' | 'bursts'>} */
export const steady = { title: 'Steady calls', idleMs: 0, bursts: undefined };

/** Contenders over one protocol; the first is the baseline, and takes part twice. */
export class Fleet {
  #protocol;
  #contenders;

  /** @param {import('./fleet-contenders.mjs').Protocol} protocol @param {readonly FleetContender[]} contenders */
  constructor(protocol, contenders) {
    const [baseline, ...others] = contenders;
    if (baseline === undefined) throw new Error('nobody contends');
    this.#protocol = protocol;
    this.#contenders = [baseline, { ...baseline, name: `${baseline.name}${AGAIN}` }, ...others];
  }

  /** Plays one variant. @param {Variant} variant */
  async play(variant) {
    process.stderr.write(
      `fleet over ${this.#protocol}: ${variant.title}, ${Math.round((WARM_UP_MS + ROUNDS * (ROUND_MS + PAUSE_MS)) / 1_000)} s\n`,
    );
    const protocol = this.#protocol;
    const contenders = this.#contenders;
    const pods = await Promise.all(
      contenders.map(({ reports }) =>
        startChild('virtual-pods.mjs', [
          String(PODS),
          protocol,
          String(variant.idleMs),
          reports === true ? 'reports' : '',
        ]),
      ),
    );
    /** @type {import('./children.mjs').Child[]} */
    const others = [];
    const placed = await Promise.all(
      contenders.map(async ({ kind }, index) => {
        const { said } = /** @type {import('./children.mjs').Child} */ (pods[index]);
        const ports = /** @type {number[]} */ (said.ports);
        if (kind !== 'stock') return { protocol, kind, ports };
        const balancer = await startChild('connection-balancer.mjs', ports.map(String));
        others.push(balancer);
        return { protocol, kind, ports: [balancer.port] };
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
      contenders,
      variant,
      /** @type {import('./fleet-client.mjs').FleetShare[]} */ (shares),
      /** @type {number[][]} */ (late).flat(),
    );
  }
}

/** What the calls of all clients showed. */
class Outcome {
  #contenders;
  #variant;
  #shares;
  #rng = seededRng(1);
  /** One in a hundred was later, in ms: sending, and answering. */
  sentLateMs;
  answeredLateMs;
  /** Of one queue for all, computed for the same calls. */
  #ideal;

  /**
   * @param {readonly FleetContender[]} contenders
   * @param {Variant} variant
   * @param {readonly import('./fleet-client.mjs').FleetShare[]} shares
   * @param {readonly number[]} answeredLateMs
   */
  constructor(contenders, variant, shares, answeredLateMs) {
    this.#contenders = contenders;
    this.#variant = variant;
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

  /** What is shown of it. */
  get section() {
    const { title, wanted } = this.#variant;
    const figures = (/** @type {(share: number) => number} */ of) =>
      [0.5, 0.99, 0.999].map((share) => (Number.isNaN(of(share)) ? '–' : of(share).toFixed(0)));
    const rows = [
      [IDEAL, ...figures((share) => this.#idealQuantile(share)), '', '', '', ''],
      ...this.#contenders.map(({ name }, index) => {
        const ratio = index === 0 ? undefined : this.#ratio(index);
        const limit = wanted[name];
        const verdict =
          ratio === undefined || limit === undefined
            ? ''
            : QUICK || !this.canJudge
              ? 'not judged'
              : judgeLimit(ratio, limit);
        return [
          name,
          ...figures((share) => this.#quantile(index, share)),
          String(this.#failed(index)),
          index === 0 ? '1' : ratio === undefined ? '' : withInterval(ratio),
          limit === undefined ? '' : `≤ ${limit.toFixed(2)}`,
          verdict,
        ];
      }),
    ];
    const late = `One timer in a hundred was late by ${this.sentLateMs.toFixed(1)} ms in clients and ${this.answeredLateMs.toFixed(1)} ms in pods`;
    return `### ${title}

${table(['', 'p50 ms', 'p99 ms', 'p99.9 ms', 'failed', 'p99 ratio', 'wanted', 'verdict'], rows, [7])}

${late}${this.canJudge ? '.' : `: with more than ${LATEST_MS} ms nothing is judged.`}`;
  }

  /** Each contender's 99th percentile for a picture, in ms; the baseline once. */
  get p99() {
    const ofAll = this.#contenders.map(({ name }, index) => ({ name, ms: this.#quantile(index, 0.99) }));
    return [{ name: IDEAL, ms: this.#idealQuantile(0.99) }, ...ofAll.filter(({ name }) => !name.endsWith(AGAIN))];
  }

  /** Of all rounds, in ms. @param {number} contender @param {number} share */
  #quantile(contender, share) {
    const latencies = this.#latencies(contender, undefined);
    return latencies.length === 0 ? Number.NaN : quantile(latencies, share);
  }

  /** The same of one queue. @param {number} share */
  #idealQuantile(share) {
    return this.#ideal.length === 0 ? Number.NaN : quantile(this.#ideal, share);
  }

  /** @param {number} contender */
  #failed(contender) {
    const all = this.#shares.flatMap(({ latencies }) => latencies[contender] ?? []);
    return all.filter(Number.isNaN).length;
  }

  /** p99 over that of the baseline, by round; undefined = there is none. @param {number} contender */
  #ratio(contender) {
    const rounds = Array.from({ length: ROUNDS }, (_, round) => round).filter((round) =>
      [contender, 0].every((who) => this.#latencies(who, round).length >= FEWEST),
    );
    if (rounds.length === 0) return undefined;
    const of = (/** @type {number} */ who, /** @type {number} */ round) => quantile(this.#latencies(who, round), 0.99);
    return bootstrapMedian(
      rounds.map((round) => of(contender, round) / of(0, round)),
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
