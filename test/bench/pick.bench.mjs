/**
 * What a pick costs: pick + start + end on real subchannels, without reading the clock, at 10 to 10,000 endpoints. All
 * pickers and loads take turns in one loop, so its call sites have seen every one of them, as in a big process.
 *
 *   node test/bench/pick.bench.mjs [--quick]
 */
import { Session } from 'node:inspector/promises';
import * as evenkeel from 'evenkeel';
import { seededRng } from 'evenkeel/testing';
import { othersPicks } from './lib/others-picks.mjs';
import { MIN_ROUNDS } from './lib/rounds.mjs';
import { bootstrapMedian, judgeLimit, median, quantile, shuffled } from './lib/statistics.mjs';
import { table, withInterval } from './lib/table.mjs';

/** @typedef {import('evenkeel/adapter').Subchannel<undefined>} Subchannel */
/** @typedef {import('evenkeel').Picker} Picker */
/** @typedef {{ name: string, size: number, limitNs: number | undefined, sample: (operations: number) => number, most?: number, ns: number[] }} Case */

const quick = process.argv.includes('--quick');
const ROUNDS = quick ? 10 : MIN_ROUNDS;
const SIZES = [10, 100, 1_000, 10_000];
const OPERATIONS = 30_000;
/** On average one allocation is noted in this many bytes. */
const SAMPLED_BYTES = 256;
const BYTES_ROUNDS = 5;
/** Calls that run at any moment, so that loads differ. A power of two. */
const RUNNING = 64;
/** Less than one number in a hundred operations; the loop's own array is in it. */
const LIMIT_BYTES = 0.2;

const rng = seededRng(1);
/** Some endpoints, drawn before. */
const keys = Array.from({ length: 1_024 }, (_, i) => `customer-${i}`);
const { outcomes } = evenkeel;

/** Whatever pickers and loads the main entry point has, by name. */
const entryPoint = /** @type {Record<string, any>} */ (evenkeel);
const pickerNames = [
  'p2c',
  'roundRobin',
  'random',
  'hash',
  'weightedRoundRobin',
  'leastLoaded',
  'shortestExpectedDelay',
  'neverQueue',
].filter((name) => typeof entryPoint[name] === 'function');
/** Those a limit is set for: whose cost must not depend on how many endpoints there are. */
const limited = new Set(['p2c', 'roundRobin', 'random', 'hash']);
const limitFor = (/** @type {string} */ name, /** @type {number} */ size) => {
  // Up to 16 endpoints `hash` looks at each of them; the limit is for its table.
  if (!limited.has(name) || (name === 'hash' && size <= 16)) return undefined;
  return size <= 1_000 ? 100 : 150;
};

/** Some reports of load. */
const said = Array.from({ length: 64 }, (_, i) => ({ namedMetrics: { evenkeel_in_flight: 1 + (i % 9) } }));

/** Every stage there is, in the order in which they belong; none of them has anything to hold against an endpoint. */
function allStages(/** @type {number} */ size) {
  return [
    evenkeel.conditions(),
    evenkeel.topologyHints({ zone: 'a' }),
    evenkeel.subset({ size, client: 'bench' }),
    evenkeel.activeHealth({ check: async () => {}, intervalMs: 3_600_000 }),
    evenkeel.outlierEjection(),
    evenkeel.zone({ zone: 'a' }),
    evenkeel.slowStart(),
    evenkeel.pushback(),
    evenkeel.panic(),
  ];
}

/** A balancer with `size` endpoints, all connected, and the set its picker was given. */
async function connect(size, options = {}) {
  /** @type {any} */
  let set;
  const never = new Promise(() => {});
  const balancer = evenkeel.createBalancer({
    resolver: evenkeel.staticEndpoints(
      Array.from({ length: size }, (_, i) => ({ address: `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`, port: 80 })),
    ),
    transport: {
      connect: async () => ({
        handle: undefined,
        capacity: Infinity,
        watchCapacity() {},
        closed: never,
        close: async () => {},
      }),
    },
    pool: { maxConnecting: Infinity, maxConnectionAgeMs: Infinity },
    picker: (given, previous, context) => {
      set = given;
      return evenkeel.p2c()(given, previous, context);
    },
    ...options,
  });
  while (set?.targets.length !== size) await new Promise((resolve) => setImmediate(resolve));
  return { balancer, set };
}

/**
 * The moments the next loops run at. The clock is read apart, and what it returns is a number on the heap already: hence
 * a list that holds such numbers, as one with something else in it does.
 * @type {any[]}
 */
const moments = [undefined];
/** The present moment of the benchmark, in ms; only ever grows, as loads that decay need it. */
let nowMs = performance.now();
function prepareMoments(/** @type {number} */ operations) {
  for (let i = 1; i <= operations; i++) {
    nowMs += 0.001;
    moments[i] = nowMs;
  }
}

/** The loop every case goes through. Returns ns per operation; `prepareMoments` comes first. */
function pickLoop(
  /** @type {Picker} */ picker,
  /** @type {Subchannel} */ first,
  /** @type {number} */ operations,
  /** @type {readonly import('evenkeel').LoadReport[] | undefined} what endpoints say with their responses */ reports = undefined,
) {
  const startedMs = moments[1];
  // As the balancer's: a field for anything holds the clock's number, one for numbers alone would make another of it at each read.
  /** @type {any} */
  const request = { nowMs: undefined, key: undefined, avoid: undefined };
  request.nowMs = startedMs;
  request.key = keys[0];
  const running = new Array(RUNNING);
  for (let i = 0; i < RUNNING; i++) {
    running[i] = picker.pick(request) ?? first;
    running[i].start(startedMs);
  }
  const begun = process.hrtime.bigint();
  for (let i = 1; i <= operations; i++) {
    const slot = i & (RUNNING - 1);
    const now = moments[i];
    request.nowMs = now;
    request.key = keys[i & 1_023];
    /** @type {any} a subchannel, of which pickers see the load only */
    const chosen = picker.pick(request) ?? first;
    chosen.start(now);
    const ended = running[slot];
    if (reports !== undefined) ended.reported(reports[i & 63], now);
    ended.end(startedMs, now, outcomes.success, startedMs);
    picker.ended?.(ended);
    running[slot] = chosen;
  }
  const ns = Number(process.hrtime.bigint() - begun) / operations;
  for (const subchannel of running) subchannel.end(startedMs, moments[operations], outcomes.success, startedMs);
  return ns;
}

/** Everything put on the heap per operation, in bytes, as V8 samples it; what a collection takes back included. */
async function bytesPerOperation(/** @type {Case} */ { sample, most = OPERATIONS }) {
  const operations = Math.min(OPERATIONS, most);
  prepareMoments(OPERATIONS);
  await inspector.post('HeapProfiler.startSampling', {
    samplingInterval: SAMPLED_BYTES,
    includeObjectsCollectedByMajorGC: true,
    includeObjectsCollectedByMinorGC: true,
  });
  for (let round = 0; round < BYTES_ROUNDS; round++) sample(operations);
  const { profile } = await inspector.post('HeapProfiler.stopSampling');
  const sum = (/** @type {import('node:inspector').HeapProfiler.SamplingHeapProfileNode} */ node) =>
    node.children.reduce((bytes, child) => bytes + sum(child), node.selfSize);
  return sum(profile.head) / (BYTES_ROUNDS * operations);
}

const inspector = new Session();
inspector.connect();

/** @type {Case[]} */
const cases = [];
const closing = [];
const context = { rng: evenkeel.systemRng };

for (const size of SIZES) {
  const { balancer, set } = await connect(size, { load: evenkeel.inFlight() });
  closing.push(balancer);
  for (const name of pickerNames) {
    const picker = entryPoint[name]()(set, undefined, context);
    cases.push({
      name: `\`${name}\` over \`inFlight\``,
      size,
      limitNs: limitFor(name, size),
      sample: (operations) => pickLoop(picker, set.targets[0], operations),
      ns: [],
    });
  }
  for (const [loadName, stagesName, stages, limitNs] of /** @type {const} */ ([
    ['relativeLatency', 'standard stages', [], size <= 1_000 ? 100 : 180],
    ['peakEwma', 'standard stages', [], 200],
    ['peakEwma', 'all stages', allStages(size), 200],
    ['reported', 'standard stages', [], undefined],
  ])) {
    const all = await connect(size, { load: entryPoint[loadName](), stages });
    closing.push(all.balancer);
    const picker = evenkeel.p2c()(all.set, undefined, context);
    cases.push({
      name: `\`p2c\` over \`${loadName}\`, ${stagesName}`,
      size,
      limitNs,
      sample: (operations) => pickLoop(picker, all.set.targets[0], operations),
      ns: [],
    });
  }
  for (const [says, reports] of /** @type {const} */ ([
    ['', undefined],
    [', a report with each response', said],
  ])) {
    const own = await connect(size, { load: evenkeel.relativeLatency(), stages: [] });
    closing.push(own.balancer);
    const picker = evenkeel.rotatingAperture()(own.set, undefined, context);
    cases.push({
      name: `\`rotatingAperture\` over \`relativeLatency\`, standard stages${says}`,
      size,
      limitNs: size > 1_000 ? undefined : reports === undefined ? (size <= 100 ? 110 : 130) : 250,
      sample: (operations) => pickLoop(picker, own.set.targets[0], operations, reports),
      ns: [],
    });
  }
  const reporting = await connect(size, { load: evenkeel.relativeLatency(), stages: [] });
  closing.push(reporting.balancer);
  const comparing = evenkeel.p2c()(reporting.set, undefined, context);
  cases.push({
    name: '`p2c` over `relativeLatency`, standard stages, a report with each response',
    size,
    limitNs: size <= 1_000 ? 250 : undefined,
    sample: (operations) => pickLoop(comparing, reporting.set.targets[0], operations, said),
    ns: [],
  });
  const leases = await connect(size, { stages: [] });
  closing.push(leases.balancer);
  cases.push({
    name: 'lease: `balancer.pick()` + `end()`, two clock reads',
    size,
    limitNs: undefined,
    sample: (operations) => {
      const begun = process.hrtime.bigint();
      for (let i = 0; i < operations; i++) leases.balancer.pick()?.end(outcomes.success);
      return Number(process.hrtime.bigint() - begun) / operations;
    },
    ns: [],
  });
}
for (const size of SIZES) {
  for (const { name, sample } of othersPicks(size)) {
    // Some look at every endpoint for each pick.
    cases.push({ name, size, limitNs: undefined, sample, most: Math.ceil(1e6 / size), ns: [] });
  }
}
cases.push({
  name: 'one clock read',
  size: SIZES[0] ?? 0,
  limitNs: undefined,
  sample: (operations) => {
    const begun = process.hrtime.bigint();
    for (let i = 0; i < operations; i++) evenkeel.systemClock.now();
    return Number(process.hrtime.bigint() - begun) / operations;
  },
  ns: [],
});

/** Work that is the same every time: what disturbs it disturbs the rest. Walks 16 MB in random order; ns per step. */
const walk = new Int32Array(4 * 2 ** 20);
{
  const order = shuffled(Array.from(walk.keys()), () => rng.next());
  for (const [i, place] of order.entries()) walk[place] = Number(order[(i + 1) % order.length]);
}
let place = 0;
function fixedWalk() {
  const begun = process.hrtime.bigint();
  for (let i = 0; i < OPERATIONS; i++) place = Number(walk[place]);
  return Number(process.hrtime.bigint() - begun) / OPERATIONS;
}
/** @type {number[]} */
const fixed = [];

for (let round = -3; round < ROUNDS; round++) {
  for (const one of shuffled(cases, () => rng.next())) {
    // Once over the endpoints before the clock runs: rounds in between have driven them out of the processor's caches.
    prepareMoments(OPERATIONS);
    one.sample(Math.min(OPERATIONS, 2 * one.size, one.most ?? OPERATIONS));
    prepareMoments(OPERATIONS);
    const ns = one.sample(Math.min(OPERATIONS, one.most ?? OPERATIONS));
    if (round < 0) continue;
    one.ns.push(ns);
    fixed.push(fixedWalk());
  }
}

/** How much longer the same work took than it can, as a median; neighbours only ever add. */
const disturbance = median(fixed) / quantile(fixed, 0.05);
const quiet = disturbance <= 1.1;

const names = [...new Set(cases.map(({ name }) => name))];
const rows = [];
for (const name of names) {
  const cells = [];
  const verdicts = [];
  const bytes = [];
  const limitedBytes = [];
  for (const size of SIZES) {
    const one = cases.find((candidate) => candidate.name === name && candidate.size === size);
    if (one === undefined) {
      cells.push('');
      continue;
    }
    const interval = bootstrapMedian(one.ns, () => rng.next());
    cells.push(withInterval(interval, 0));
    const perOperation = Math.min(await bytesPerOperation(one), await bytesPerOperation(one));
    bytes.push(perOperation);
    if (one.limitNs === undefined) continue;
    verdicts.push(judgeLimit(interval, one.limitNs));
    limitedBytes.push(perOperation);
  }
  const mostBytes = Math.max(...bytes);
  const frugal = limitedBytes.every((value) => value <= LIMIT_BYTES);
  if (verdicts.length > 0 && !frugal) verdicts.push('falls short');
  const worst = ['falls short', 'undecided here', 'holds'].find((word) => verdicts.some((one) => one === word)) ?? '';
  const verdict = worst === 'falls short' && !quiet && frugal ? 'undecided here' : worst;
  rows.push([name, ...cells, mostBytes.toFixed(1), quick && verdict !== '' ? `(${verdict})` : verdict]);
}

console.log(`## What a pick costs

pick + start + end in ns, without reading the clock: median of ${ROUNDS} interleaved rounds of ${OPERATIONS.toLocaleString('en-US')} operations with its bootstrap 95 %
interval, and bytes of heap per operation at the worst size (boxed numbers and objects, by V8's sampling; the lower of two
counts, because V8 may compile a function anew during one). ${RUNNING} calls run at any moment. The
loop's call sites have seen all ${pickerNames.length} pickers before. Of other libraries the pick alone: they count nothing. Wanted: ≤ 100 ns to 1,000 endpoints and ≤ 150 ns at 10,000 for pickers of
constant cost (\`hash\` from 17 endpoints on, where its table begins), ≤ 200 ns with peak EWMA and all stages, ≤ 250 ns to 1,000 endpoints with reports, ≤ ${LIMIT_BYTES} B. A fixed walk through 16 MB in between took ${disturbance.toFixed(2)} × its best;
above 1.10 the machine is too busy to say that a time falls short.

${table(['', ...SIZES.map((size) => `${size.toLocaleString('en-US')} endpoints`), 'bytes', 'verdict'], rows, [SIZES.length + 2])}
`);

await Promise.all(closing.map((balancer) => balancer.close()));
