/**
 * An overload that ends, over real sockets: `npm run proof -- overload`.
 *
 * Four pods of four workers (exponential, 20 ms, first come first served, working on for callers who left), callers who give up
 * after 250 ms, load 0.7, then 1.4 for 5 s, then 0.7 again. Printed: the share of requests answered in time per 5 s, without a
 * limit, with one in the client, and with `evenkeel/server` at the other end too, in alternation; the same for three priorities;
 * 1,000 callers in a closed loop at three times the load for 60 s; and what the limit costs a Service that is well.
 *
 *   npm run proof -- overload 5               runs of each, 5 by default
 *   npm run proof -- overload 5 --write       and the pictures of the guide
 *   npm run proof -- overload 5 storm costs   these parts only: phases, priorities, storm, healthy, costs
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { adaptive, staticEndpoints } from 'evenkeel';
import { createDispatcher } from 'evenkeel/undici';
import { barChart } from '../../bench/lib/bar-chart.mjs';
import { bootstrapMedian, shuffled } from '../../bench/lib/statistics.mjs';
import { withInterval } from '../../bench/lib/table.mjs';

const PODS = 4;
const WORKERS = 4;
const MEAN_MS = 20;
const CAPACITY = (PODS * WORKERS * 1_000) / MEAN_MS;
const GIVE_UP_MS = 250;
const PHASES = [0.7, 1.4, 0.7, 0.7, 0.7];
const PHASE_MS = 5_000;
const runs = Number(process.argv[2] ?? 5);
const write = process.argv.includes('--write');
const parts = process.argv.slice(3).filter((part) => part !== '--write');
const wants = (/** @type {string} */ part) => parts.length === 0 || parts.includes(part);

/** @typedef {{ asked: number, inTime: number, shed: number, latencies: number[] }} Tally */
/** @returns {Tally} */
const newTally = () => ({ asked: 0, inTime: 0, shed: 0, latencies: [] });

/** A picture of the guide. @param {string} name @param {Parameters<typeof barChart>[0]} chart */
function draw(name, chart) {
  if (write) writeFileSync(new URL(`../../../docs/images/${name}.svg`, import.meta.url), barChart(chart));
}

/** @param {boolean} isLimited */
async function startPods(isLimited, meanMs = MEAN_MS) {
  const program = fileURLToPath(new URL('../../support/pods/worker-pod.mjs', import.meta.url));
  return Promise.all(
    Array.from({ length: PODS }, async () => {
      const child = fork(program, [String(WORKERS), String(meanMs), isLimited ? 'limited' : ''], { execArgv: [] });
      const [{ port }] = await once(child, 'message');
      return { child, port };
    }),
  );
}

const shedCodes = new Set(['EVENKEEL_OVERLOAD', 'EVENKEEL_QUEUE_FULL', 'EVENKEEL_TOO_LATE']);

/** @param {() => string} priorityOf @param {(priority: string) => Tally} tallyOf */
function caller(dispatcher, priorityOf, tallyOf) {
  return async () => {
    const priority = priorityOf();
    const tally = tallyOf(priority);
    tally.asked++;
    const beganMs = performance.now();
    try {
      const { statusCode, body } = await dispatcher.request({
        path: '/',
        method: 'GET',
        headers: { 'x-priority': priority },
        signal: AbortSignal.timeout(GIVE_UP_MS),
      });
      await body.text();
      const tookMs = performance.now() - beganMs;
      if (statusCode === 503) tally.shed++;
      else if (tookMs <= GIVE_UP_MS) tally.inTime++;
      tally.latencies.push(tookMs);
    } catch (error) {
      if (shedCodes.has(error.code)) tally.shed++;
    }
  };
}

/** An open loop: calls at random, so many a second, whatever becomes of them. */
async function send(call, perSecond, ms) {
  const running = [];
  const endMs = performance.now() + ms;
  let nextMs = performance.now();
  while (nextMs < endMs) {
    const nowMs = performance.now();
    while (nextMs <= nowMs && nextMs < endMs) {
      running.push(call());
      nextMs += (-Math.log(1 - Math.random()) / perSecond) * 1_000;
    }
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  return running;
}

/**
 * @typedef {object} Kind
 * @property {import('evenkeel/undici').DispatcherOptions} options
 * @property {boolean} [atServer]
 */

/** @param {Kind} kind @param {number[]} phases */
async function play({ options, atServer = false }, phases, priorityOf = () => 'default') {
  const pods = await startPods(atServer);
  const dispatcher = createDispatcher('http://orders.shop:8080', {
    resolver: staticEndpoints(pods.map(({ port }) => ({ address: '127.0.0.1', port }))),
    priority: ({ headers }) => headers['x-priority'],
    ...options,
  });
  const result = [];
  const all = [];
  // So that connections are open, and the program is compiled.
  await Promise.all(await send(caller(dispatcher, priorityOf, newTally), 0.5 * CAPACITY, 3_000));
  for (const load of phases) {
    const tallies = new Map();
    const tallyOf = (priority) => {
      if (!tallies.has(priority)) tallies.set(priority, newTally());
      return tallies.get(priority);
    };
    all.push(...(await send(caller(dispatcher, priorityOf, tallyOf), load * CAPACITY, PHASE_MS)));
    result.push({ load, tallies, limit: dispatcher.balancer.snapshot().limit?.max });
  }
  await Promise.all(all);
  let served = 0;
  let forNobody = 0;
  for (const { child } of pods) {
    const told = once(child, 'message');
    child.send('counts');
    const [counts] = await told;
    served += counts.served;
    forNobody += counts.forNobody;
  }
  await dispatcher.close();
  for (const { child } of pods) child.disconnect();
  return { result, forNobody: forNobody / served };
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;
const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
const inTime = ({ tallies }, priority = 'default') => {
  const tally = tallies.get(priority);
  return tally.inTime / tally.asked;
};
const quantile = (numbers, share) => [...numbers].sort((a, b) => a - b)[Math.floor(share * numbers.length)];

/** @type {Record<string, Kind>} */
const kinds = {
  'without a limit': { options: {} },
  'limit: adaptive()': { options: { limit: adaptive() } },
  'and evenkeel/server': { options: { limit: adaptive(), deadlineMs: GIVE_UP_MS }, atServer: true },
};
if (wants('phases')) {
  const shares = Object.fromEntries(Object.keys(kinds).map((name) => [name, []]));
  const wasted = Object.fromEntries(Object.keys(kinds).map((name) => [name, []]));
  for (let run = 1; run <= runs; run++) {
    for (const [name, kind] of Object.entries(kinds)) {
      const { result, forNobody } = await play(kind, PHASES);
      shares[name].push(result.map((phase) => inTime(phase)));
      wasted[name].push(forNobody);
      console.error(
        `${name}, run ${run}: ${result.map((phase) => percent(inTime(phase))).join(', ')}; work for nobody ${percent(forNobody)}; limit ${result.map(({ limit }) => limit ?? '–').join(', ')}`,
      );
    }
  }
  console.log(
    `\n| answered in time, mean of ${runs} | ${PHASES.map((load) => `load ${load}`).join(' | ')} | work for nobody |`,
  );
  console.log(`|---|${PHASES.map(() => '---:|').join('')}---:|`);
  for (const [name, rows] of Object.entries(shares)) {
    const cells = PHASES.map((_, at) => percent(mean(rows.map((row) => row[at]))));
    console.log(`| ${name} | ${cells.join(' | ')} | ${percent(mean(wasted[name]))} |`);
  }
  const rows = PHASES.flatMap((load, at) =>
    Object.entries(shares).map(([name, values]) => {
      const value = mean(values.map((row) => row[at]));
      return {
        label: `${5 * at} to ${5 * at + 5} s, load ${load}: ${name}`,
        value,
        note: percent(value),
        ours: name !== 'without a limit',
      };
    }),
  );
  draw('overload-phases', {
    title: 'Answered in time, before, during and after an overload',
    subtitle: `4 pods of 4 workers, 20 ms per request, callers give up after 250 ms; mean of ${runs} runs`,
    rows,
  });
}

if (wants('priorities')) {
  const priorityOf = () => {
    const draw = Math.random();
    return draw < 0.4 ? 'sheddable' : draw < 0.8 ? 'default' : 'critical';
  };
  console.log('\n| answered in time at load 1.4 | critical | default | sheddable |\n|---|---:|---:|---:|');
  for (const [name, kind] of Object.entries(kinds).slice(1)) {
    const byPriority = [];
    for (let run = 1; run <= runs; run++) byPriority.push((await play(kind, [0.7, 1.4], priorityOf)).result[1]);
    const cells = ['critical', 'default', 'sheddable'].map((priority) =>
      percent(mean(byPriority.map((phase) => inTime(phase, priority)))),
    );
    console.log(`| ${name} | ${cells.join(' | ')} |`);
  }
}

/**
 * 1,000 callers, each of whom asks again a moment after its answer, and at once three more times when there is none: what an
 * application does that retries. For 60 s three times what the pods can do, then a load of 0.7.
 */
async function storm({ options, atServer = false }) {
  const pods = await startPods(atServer);
  const dispatcher = createDispatcher('http://orders.shop:8080', {
    resolver: staticEndpoints(pods.map(({ port }) => ({ address: '127.0.0.1', port }))),
    retry: { statuses: [503] },
    ...options,
  });
  const CALLERS = 1_000;
  const RETRIES = 3;
  const RAMP_MS = 10_000;
  let load = 0.7;
  /** Asked and answered in time, per second. */
  const seconds = [];
  // So that connections are open, and the program is compiled.
  await Promise.all(
    await send(
      caller(dispatcher, () => 'default', newTally),
      0.5 * CAPACITY,
      3_000,
    ),
  );
  const beganMs = performance.now() + RAMP_MS;
  let isOver = false;
  const second = () => {
    const at = Math.max(0, Math.floor((performance.now() - beganMs) / 1_000));
    seconds[at] ??= { asked: 0, inTime: 0 };
    return seconds[at];
  };
  const one = async () => {
    // They come one after the other: what is to be shown is an overload that begins and ends.
    await new Promise((resolve) => setTimeout(resolve, Math.random() * RAMP_MS));
    while (!isOver) {
      const tally = second();
      tally.asked++;
      const startedMs = performance.now();
      for (let attempt = 0; attempt <= RETRIES && !isOver; attempt++) {
        try {
          const { statusCode, body } = await dispatcher.request({
            path: '/',
            method: 'GET',
            signal: AbortSignal.timeout(GIVE_UP_MS),
          });
          await body.text();
          if (statusCode !== 200) continue;
          if (performance.now() - startedMs <= GIVE_UP_MS) tally.inTime++;
          break;
        } catch {
          // Tried again at once: the worst that callers do.
          await new Promise((resolve) => setImmediate(resolve));
        }
      }
      // Callers together ask `load` times what the pods can do, as far as answers let them.
      const pauseMs = (CALLERS / (load * CAPACITY)) * 1_000;
      await new Promise((resolve) => setTimeout(resolve, -Math.log(1 - Math.random()) * pauseMs));
    }
  };
  const callers = Array.from({ length: CALLERS }, one);
  const wait = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));
  await wait(RAMP_MS + 10_000);
  load = 3;
  await wait(60_000);
  load = 0.7;
  await wait(20_000);
  isOver = true;
  await Promise.all(callers);
  await dispatcher.close();
  for (const { child } of pods) child.disconnect();
  return seconds;
}

if (wants('storm')) {
  console.log(
    '\n| 1,000 callers with retries | 0.7, before | 3, 60 s | 0.7: second 1 | 2 | 3 | 4 | 5 | 6 to 20 |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|',
  );
  const share = (tallies) => {
    const sum = (name) => tallies.reduce((total, tally) => total + (tally?.[name] ?? 0), 0);
    return percent(sum('inTime') / sum('asked'));
  };
  const stormRows = [];
  for (const [name, kind] of Object.entries(kinds)) {
    const seconds = await storm(kind);
    console.error(`${name}: ${seconds.map(({ asked, inTime }) => `${inTime}/${asked}`).join(' ')}`);
    const after = [70, 71, 72, 73, 74].map((at) => share([seconds[at]]));
    const spans = { 'load 3, 60 s': [10, 70], 'the 5 s after it': [70, 75], '5 to 20 s after it': [75, 90] };
    for (const [span, [from, to]] of Object.entries(spans)) {
      const note = share(seconds.slice(from, to));
      stormRows.push({
        label: `${span}: ${name}`,
        value: Number.parseFloat(note),
        note,
        ours: name !== 'without a limit',
      });
    }
    console.log(
      `| ${name} | ${share(seconds.slice(1, 10))} | ${share(seconds.slice(10, 70))} | ${after.join(' | ')} | ${share(seconds.slice(75, 90))} |`,
    );
  }
  draw('overload-retries', {
    title: 'Answered in time: 1,000 callers that retry at once, 60 s at three times the load',
    subtitle: 'as above; each caller tries up to four times',
    rows: stormRows,
  });
}

if (wants('healthy')) {
  console.log('\n| healthy: in time, p99, shed | without | with | and evenkeel/server |\n|---|---:|---:|---:|');
  for (const load of [0.3, 0.6, 0.8]) {
    const cells = [];
    for (const kind of Object.values(kinds)) {
      const { result } = await play(kind, [load, load]);
      const tallies = result.map(({ tallies }) => tallies.get('default'));
      const latencies = tallies.flatMap((tally) => tally.latencies);
      const shed = tallies.reduce((sum, tally) => sum + tally.shed, 0);
      cells.push(
        `${percent(mean(result.map((phase) => inTime(phase))))}, ${quantile(latencies, 0.99).toFixed(0)} ms, ${shed}`,
      );
    }
    console.log(`| load ${load} | ${cells.join(' | ')} |`);
  }
}

/** Ratios to the plain dispatcher, which is in twice (A/A), over rounds in which each has its turn, in random order. */
if (wants('costs')) {
  const ROUNDS = 40;
  const ROUND_MS = 1_000;
  const subjects = { plain: {}, 'plain, again': {}, 'limit: adaptive()': { limit: adaptive() } };
  const ratio = (values, others) =>
    withInterval(
      bootstrapMedian(
        values.map((value, at) => value / others[at]),
        Math.random,
      ),
    );
  const shuffledNames = () => shuffled(Object.keys(subjects), Math.random);
  const perSubject = () => Object.fromEntries(Object.keys(subjects).map((name) => [name, []]));

  /** @param {number} meanMs @param {(dispatcher: any, name: string) => Promise<void>} measure */
  const inRounds = async (meanMs, measure) => {
    const pods = await startPods(false, meanMs);
    const resolver = staticEndpoints(pods.map(({ port }) => ({ address: '127.0.0.1', port })));
    const dispatchers = Object.fromEntries(
      Object.entries(subjects).map(([name, options]) => [
        name,
        createDispatcher('http://orders.shop:8080', { resolver, ...options }),
      ]),
    );
    for (let round = -1; round < ROUNDS; round++)
      for (const name of shuffledNames()) await measure(dispatchers[name], name, round < 0);
    for (const dispatcher of Object.values(dispatchers)) await dispatcher.close();
    for (const { child } of pods) child.disconnect();
  };

  const throughput = perSubject();
  let shedInLoop = 0;
  await inRounds(0, async (dispatcher, name, isWarmUp) => {
    let answered = 0;
    const endMs = performance.now() + ROUND_MS;
    const beganMs = performance.now();
    const caller = async () => {
      while (performance.now() < endMs) {
        try {
          const { body } = await dispatcher.request({ path: '/', method: 'GET' });
          await body.dump();
          answered++;
        } catch (error) {
          if (!shedCodes.has(error.code)) throw error;
          shedInLoop++;
        }
      }
    };
    await Promise.all(Array.from({ length: 50 }, caller));
    if (!isWarmUp) throughput[name].push(answered / (performance.now() - beganMs));
  });
  console.log(
    '\n| to a plain dispatcher, median of 40 rounds [95 %] | plain, again | limit: adaptive() | shed |\n|---|---:|---:|---:|',
  );
  const cells = (values) =>
    ['plain, again', 'limit: adaptive()'].map((name) => ratio(values[name], values.plain)).join(' | ');
  console.log(`| requests/s, 50 callers in a closed loop | ${cells(throughput)} | ${shedInLoop} |`);
  for (const load of [0.3, 0.6, 0.8]) {
    const p99 = perSubject();
    let shed = 0;
    await inRounds(MEAN_MS, async (dispatcher, name, isWarmUp) => {
      const tally = newTally();
      await Promise.all(
        await send(
          caller(
            dispatcher,
            () => 'default',
            () => tally,
          ),
          load * CAPACITY,
          ROUND_MS,
        ),
      );
      shed += tally.shed;
      if (!isWarmUp) p99[name].push(quantile(tally.latencies, 0.99));
    });
    console.log(`| p99 at load ${load} | ${cells(p99)} | ${shed} |`);
  }
}
