/**
 * An overload that ends, over real sockets: `npm run proof:overload`.
 *
 * Four pods of four workers (exponential, 20 ms, first come first served, working on for callers who left), callers who give up
 * after 250 ms, load 0.7, then 1.4 for 5 s, then 0.7 again. Printed: the share of requests answered in time per 5 s, with and
 * without a limit, in alternation; the same for three priorities; and what the limit costs a Service that is well.
 *
 *   npm run proof:overload -- 5     runs of each, 5 by default
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { adaptive, staticEndpoints } from 'evenkeel';
import { createDispatcher } from 'evenkeel/undici';

const PODS = 4;
const WORKERS = 4;
const MEAN_MS = 20;
const CAPACITY = (PODS * WORKERS * 1_000) / MEAN_MS;
const GIVE_UP_MS = 250;
const PHASES = [0.7, 1.4, 0.7, 0.7, 0.7];
const PHASE_MS = 5_000;
const runs = Number(process.argv[2] ?? 5);

/** @typedef {{ asked: number, inTime: number, shed: number, latencies: number[] }} Tally */
/** @returns {Tally} */
const newTally = () => ({ asked: 0, inTime: 0, shed: 0, latencies: [] });

async function startPods() {
  const program = fileURLToPath(new URL('../../support/worker-pod.mjs', import.meta.url));
  return Promise.all(
    Array.from({ length: PODS }, async () => {
      const child = fork(program, [String(WORKERS), String(MEAN_MS)], { execArgv: [] });
      const [{ port }] = await once(child, 'message');
      return { child, port };
    }),
  );
}

/** @param {() => string} priorityOf @param {(priority: string) => Tally} tallyOf */
function caller(dispatcher, priorityOf, tallyOf) {
  return async () => {
    const priority = priorityOf();
    const tally = tallyOf(priority);
    tally.asked++;
    const beganMs = performance.now();
    try {
      const { body } = await dispatcher.request({
        path: '/',
        method: 'GET',
        headers: { 'x-priority': priority },
        signal: AbortSignal.timeout(GIVE_UP_MS),
      });
      await body.text();
      const tookMs = performance.now() - beganMs;
      if (tookMs <= GIVE_UP_MS) tally.inTime++;
      tally.latencies.push(tookMs);
    } catch (error) {
      if (error.code === 'EVENKEEL_OVERLOAD' || error.code === 'EVENKEEL_QUEUE_FULL') tally.shed++;
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

/** @param {{ limit?: import('evenkeel').LimitFactory }} options */
async function play(options, phases, priorityOf = () => 'default') {
  const pods = await startPods();
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

const kinds = { 'without a limit': {}, 'limit: adaptive()': { limit: adaptive() } };
const shares = Object.fromEntries(Object.keys(kinds).map((name) => [name, []]));
for (let run = 1; run <= runs; run++) {
  for (const [name, options] of Object.entries(kinds)) {
    const { result, forNobody } = await play(options, PHASES);
    shares[name].push(result.map((phase) => inTime(phase)));
    console.error(
      `${name}, run ${run}: ${result.map((phase) => percent(inTime(phase))).join(', ')}; work for nobody ${percent(forNobody)}; limit ${result.map(({ limit }) => limit ?? '–').join(', ')}`,
    );
  }
}
console.log(`\n| answered in time, mean of ${runs} | ${PHASES.map((load) => `load ${load}`).join(' | ')} |`);
console.log(`|---|${PHASES.map(() => '---:|').join('')}`);
for (const [name, rows] of Object.entries(shares)) {
  console.log(`| ${name} | ${PHASES.map((_, at) => percent(mean(rows.map((row) => row[at])))).join(' | ')} |`);
}

const priorityOf = () => {
  const draw = Math.random();
  return draw < 0.4 ? 'sheddable' : draw < 0.8 ? 'default' : 'critical';
};
const byPriority = [];
for (let run = 1; run <= runs; run++)
  byPriority.push((await play({ limit: adaptive() }, [0.7, 1.4], priorityOf)).result[1]);
console.log('\n| answered in time at load 1.4 | share |\n|---|---:|');
for (const priority of ['critical', 'default', 'sheddable']) {
  console.log(`| ${priority} | ${percent(mean(byPriority.map((phase) => inTime(phase, priority))))} |`);
}

console.log('\n| healthy | without: in time, p99 | with: in time, p99, shed |\n|---|---:|---:|');
for (const load of [0.3, 0.6, 0.8]) {
  const cells = [];
  for (const options of Object.values(kinds)) {
    const { result } = await play(options, [load, load]);
    const tallies = result.map(({ tallies }) => tallies.get('default'));
    const latencies = tallies.flatMap((tally) => tally.latencies);
    const shed = tallies.reduce((sum, tally) => sum + tally.shed, 0);
    cells.push(
      `${percent(mean(result.map((phase) => inTime(phase))))}, ${quantile(latencies, 0.99).toFixed(0)} ms, ${shed}`,
    );
  }
  console.log(`| load ${load} | ${cells.join(' | ')} |`);
}
