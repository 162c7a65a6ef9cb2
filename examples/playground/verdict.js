// @ts-check
/** What `--once` says about evenkeel: which promises it broke, and what this machine could not show. */
import { BEGUN } from './clients/recorder.js';
import { CUT } from './clients/websocket.js';
import { isBalanced } from './protocols.js';
import { kinds } from './table.js';

/** The phase in which a pod dies with whatever it holds. */
const DEATH = 'kill -9';
/** Why a request fails if processes do not get to run in time. */
const OUT_OF_TIME = new Set(['no answer in 3 s', 'not sent, too many in flight', 'DEADLINE_EXCEEDED']);
// Round robin takes turns, so chance has no part in it. A request cannot be split: few of them differ by one.
const ROUND_ROBIN_LIMIT = 1.01;
/** @param {Row} row */
const roundRobinLimit = ({ perPod }) => {
  const mean = perPod.reduce((total, count) => total + count, 0) / perPod.length;
  return Math.max(ROUND_ROBIN_LIMIT, (mean + 1) / mean);
};

/** @typedef {import('./scenario.js').Row} Row */
/**
 * @typedef {object} Verdict one line each
 * @property {string[]} lost requests that evenkeel lost where the ordinary client had an answer: the exit code is 1
 * @property {string[]} uneven phases in which its requests were spread less evenly than chance explains
 * @property {string[]} notJudged phases that show nothing about any client
 */

/** @param {readonly Row[]} rows @param {string | undefined} picker @returns {Verdict} */
export function judge(rows, picker) {
  /** @type {Verdict} */
  const verdict = { lost: [], uneven: [], notJudged: [] };
  for (const row of rows) {
    if (!isBalanced(row.client)) continue;
    const where = `${row.protocol.title}, ${row.phase}`;
    const others = rows.filter(({ phase, protocol }) => phase === row.phase && protocol === row.protocol);
    const ordinary = others.find(({ client }) => client === 'ordinary');
    const lost = lossOf(row, ordinary);
    if (lost !== undefined) verdict.lost.push(`${where}: ${row.client} ${lost}`);
    if (row.notJudged !== undefined) {
      const line = `${where}: not judged: ${row.notJudged}`;
      if (!verdict.notJudged.includes(line)) verdict.notJudged.push(line);
    } else if (lost === undefined) {
      // The registered client has the defaults, whatever was asked for.
      const isTurns = row.client === 'evenkeel' && picker === 'round-robin' && row.protocol.longLived !== true;
      const limit = isTurns ? roundRobinLimit(row) : row.maxOverMeanLimit;
      // Not a number means that nothing was answered, which is no even spread either.
      if (!(row.maxOverMean <= limit)) {
        const [is, most] = [row.maxOverMean, limit].map((ratio) => ratio.toFixed(3));
        verdict.uneven.push(`${where}: ${row.client}'s max/mean is ${is}, above ${most}`);
      }
    }
  }
  return verdict;
}

/** What evenkeel lost that it should not have, in words. @param {Row} row @param {Row | undefined} ordinary */
function lossOf(row, ordinary) {
  const counted = [...row.errorKinds].filter(
    ([kind]) => !kind.endsWith(BEGUN) && !(kind === CUT && row.phase === DEATH),
  );
  const isCut = row.protocol.longLived === true && row.cut > 0 && row.phase !== DEATH;
  // On a busy machine time runs out for anybody, and the ordinary client shows whether the pods were there at all.
  const isExcused = row.notJudged !== undefined && (ordinary === undefined || ordinary.errors + ordinary.unended > 0);
  const isInTime = counted.some(([kind]) => row.notJudged === undefined || !OUT_OF_TIME.has(kind));
  if (counted.length > 0 && isInTime && !isExcused) {
    return `lost ${row.errors} of ${row.requests} ${row.protocol.requests} (${kinds(row)})`;
  }
  if (row.notJudged !== undefined) return undefined;
  if (row.unended > 0) return `never ended ${row.unended} of ${row.requests} ${row.protocol.requests}`;
  return isCut ? `had ${row.cut} connections that ended without a close frame` : undefined;
}
