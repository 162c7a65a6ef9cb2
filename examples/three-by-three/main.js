// @ts-check
/**
 * 3 clients × 3 pods: how many pods do three keep-alive clients reach through a Service, and through evenkeel?
 *
 *   node examples/three-by-three/main.js [trials] [requests per client]
 */

import { evenkeelClient, ordinaryClient, podsReached } from './clients.js';
import { startCluster } from './cluster.js';

const CLIENTS = 3;
const PODS = 3;
const AT_ONCE = 4;
// Three draws out of three pods: 3 of 27 hit one pod only, 18 hit two, 6 hit all three.
const EXPECTED = [1 / 9, 6 / 9, 2 / 9];
// The 0.1 % point of chi-square with two degrees of freedom: a fair draw exceeds it once in a thousand runs.
const CHI_SQUARE_LIMIT = 13.816;

const [trials = 200, requests = 100] = process.argv.slice(2).map(Number);
if (!(Number.isInteger(trials) && trials >= 50) || !(Number.isInteger(requests) && requests >= 100)) {
  console.error(
    'usage: node examples/three-by-three/main.js [trials, at least 50] [requests per client, at least 100]',
  );
  process.exit(2);
}

/**
 * Runs all trials, a few at a time. Each gives the pods every one of its clients reached.
 * @param {() => import('./clients.js').Client} createClient
 * @returns {Promise<Set<string>[][]>}
 */
async function runTrials(createClient) {
  /** @type {Set<string>[][]} */
  const results = [];
  let begun = 0;
  const worker = async () => {
    while (begun < trials) {
      begun += 1;
      const clients = Array.from({ length: CLIENTS }, createClient);
      results.push(await Promise.all(clients.map((client) => podsReached(client, requests))));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return results;
}

/** In how many trials the clients together reached one, two, three pods. @param {Set<string>[][]} results */
function countReached(results) {
  const counts = new Array(PODS).fill(0);
  for (const clients of results) {
    const together = new Set(clients.flatMap((pods) => [...pods]));
    counts[together.size - 1] += 1;
  }
  return counts;
}

/** @param {readonly number[]} counts */
const chiSquare = (counts) =>
  counts.reduce((sum, count, index) => {
    const expected = /** @type {number} */ (EXPECTED[index]) * trials;
    return sum + (count - expected) ** 2 / expected;
  }, 0);

/** @param {string} name @param {readonly number[]} shares from 0 to 1 */
const row = (name, shares) =>
  `${name.padEnd(38)}${shares.map((share) => `${(share * 100).toFixed(1)} %`.padStart(9)).join('')}`;

const cluster = await startCluster();
try {
  console.log(`${CLIENTS} clients × ${PODS} pods, ${trials} trials each way, ${requests} requests per client\n`);
  console.log(
    `${'the clients together reached'.padEnd(38)}${['1 pod', '2 pods', '3 pods'].map((head) => head.padStart(9)).join('')}`,
  );
  console.log(row('expected of one draw per connection', EXPECTED));

  const ordinary = await runTrials(() => ordinaryClient(cluster.serviceUrl));
  const ordinaryCounts = countReached(ordinary);
  console.log(
    row(
      'keep-alive through the Service',
      ordinaryCounts.map((count) => count / trials),
    ),
  );

  const evenkeel = await runTrials(() => evenkeelClient(cluster.apiServerUrl));
  console.log(
    row(
      'evenkeel',
      countReached(evenkeel).map((count) => count / trials),
    ),
  );

  const pinned = ordinary.every((clients) => clients.every((pods) => pods.size === 1));
  const statistic = chiSquare(ordinaryCounts);
  const full = evenkeel.filter((clients) => clients.every((pods) => pods.size === PODS)).length;
  const verdicts = [
    { holds: pinned, text: 'through the Service every client stayed on one pod in every trial' },
    {
      holds: statistic < CHI_SQUARE_LIMIT,
      text: `the Service's shares fit one draw per connection: chi-square ${statistic.toFixed(2)}, limit ${CHI_SQUARE_LIMIT}`,
    },
    {
      holds: full === trials,
      text: `through evenkeel every client reached all ${PODS} pods in ${full} of ${trials} trials`,
    },
  ];
  console.log();
  for (const { holds, text } of verdicts) console.log(`${holds ? 'holds' : 'FAILS'}  ${text}`);
  process.exitCode = verdicts.every(({ holds }) => holds) ? 0 : 1;
} finally {
  await cluster.close();
}
