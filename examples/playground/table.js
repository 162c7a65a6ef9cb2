// @ts-check
/** The result of `--once` as a table, and the verdict over it. */
import { BEGUN } from './clients/recorder.js';
import { CUT } from './clients/websocket.js';
import { isBalanced } from './protocols.js';
import { formatMs } from './terminal.js';

/** The phase in which a pod dies with whatever it holds. */
const DEATH = 'kill -9';
// Round robin takes turns, so chance has no part in it. A request cannot be split: few of them differ by one.
const ROUND_ROBIN_LIMIT = 1.01;
/** @param {Row} row */
const roundRobinLimit = ({ perPod }) => {
  const mean = perPod.reduce((total, count) => total + count, 0) / perPod.length;
  return Math.max(ROUND_ROBIN_LIMIT, (mean + 1) / mean);
};

/** Up to so many pods the default takes turns; with more it is even over seconds, and a phase may be short. */
const MOST_IN_TURN = 3;
/** Whether calls are even by count. @param {Row} row @param {string | undefined} picker */
const isEvenByCount = ({ protocol, perPod }, picker) =>
  protocol.longLived === true || picker !== undefined || perPod.length <= MOST_IN_TURN;

/** @typedef {import('./scenario.js').Row} Row */

/** One table for each protocol, under its name. @param {readonly import('./scenario.js').Result[]} results */
export const formatTables = (results) =>
  results
    .map(
      ({ protocol, rows }) =>
        `${[protocol.title, protocol.workload.engine].filter(Boolean).join(': ')}\n\n${formatTable(protocol, rows)}`,
    )
    .join('\n\n');

/** @param {import('./protocols.js').Protocol} protocol @param {readonly Row[]} rows @returns {string} */
function formatTable({ longLived }, rows) {
  const head = longLived
    ? ['phase', 'client', 'messages', 'p50 ms', 'p99 ms', 'errors', 'cut', 'max/mean', 'connections per pod at its end']
    : ['phase', 'client', 'requests', 'p50 ms', 'p99 ms', 'errors', 'max/mean', 'requests per pod, all ready'];
  const cells = rows.map((row, index) => [
    row.phase === rows[index - 1]?.phase ? '' : row.phase,
    row.client,
    String(row.requests),
    formatMs(row.p50Ms),
    formatMs(row.p99Ms),
    String(row.errors),
    ...(longLived ? [String(row.cut)] : []),
    row.maxOverMean.toFixed(2),
    row.perPod.map((count) => String(count).padStart(4)).join(' '),
  ]);
  const widths = head.map((title, column) => Math.max(title.length, ...cells.map((row) => row[column]?.length ?? 0)));
  const isText = (/** @type {number} */ column) => column < 2 || column === head.length - 1;
  /** @param {readonly string[]} row */
  const line = (row) =>
    row
      .map((cell, column) => (isText(column) ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join('  ')
      .trimEnd();
  const ruler = widths.map((width) => '-'.repeat(width)).join('  ');
  return [line(head), ruler, ...cells.map(line)].join('\n');
}

/**
 * What must hold of evenkeel's rows: nothing lost, but for what no client may repeat; evenly spread, where that is by count.
 * @param {readonly Row[]} rows @param {string | undefined} picker
 */
export function judge(rows, picker) {
  const failures = [];
  for (const row of rows) {
    if (!isBalanced(row.client)) continue;
    // The registered client has the defaults, whatever was asked for.
    const own = row.client === 'evenkeel' ? picker : undefined;
    const { title, requests } = row.protocol;
    const { longLived } = row.protocol;
    const limit = own === 'round-robin' && !longLived ? roundRobinLimit(row) : row.maxOverMeanLimit;
    const excused = [...row.errorKinds]
      .filter(([kind]) => kind.endsWith(BEGUN) || (kind === CUT && row.phase === DEATH))
      .reduce((sum, [, count]) => sum + count, 0);
    if (row.errors > excused)
      failures.push(
        `${title}, ${row.phase}: ${row.client} lost ${row.errors} of ${row.requests} ${requests} (${kinds(row)})`,
      );
    if (longLived && row.cut > 0 && row.phase !== DEATH) {
      failures.push(`${title}, ${row.phase}: ${row.cut} connections of evenkeel ended without a close frame`);
    }
    // Not a number means that nothing was answered, which is no even spread either.
    if (Number.isNaN(row.maxOverMean) || (isEvenByCount(row, own) && row.maxOverMean > limit)) {
      failures.push(
        `${title}, ${row.phase}: ${row.client}'s max/mean is ${row.maxOverMean.toFixed(3)}, above ${limit.toFixed(3)}`,
      );
    }
  }
  return failures;
}

/** One line for each client: everything sent, everything lost. @param {readonly import('./scenario.js').Result[]} results @returns {string} */
export const formatSums = (results) =>
  results
    .flatMap(({ protocol, rows }) => {
      const clients = [...new Set(rows.map((row) => row.client))];
      return clients.map((client) =>
        sumLine(
          protocol,
          client,
          rows.filter((row) => row.client === client),
        ),
      );
    })
    .join('\n');

/** @param {import('./protocols.js').Protocol} protocol @param {string} client @param {readonly Row[]} rows */
function sumLine({ title, requests: what, longLived }, client, rows) {
  const requests = rows.reduce((sum, row) => sum + row.requests, 0);
  const errors = rows.reduce((sum, row) => sum + row.errors, 0);
  const reasons = rows.filter((row) => row.errors > 0).map((row) => `${row.phase}: ${kinds(row)}`);
  const why = errors === 0 ? '' : ` (${reasons.join('; ')})`;
  const cut = rows.reduce((sum, row) => sum + row.cut, 0);
  const cuts = longLived ? `; ${cut} connections ended without a close frame (1006)` : '';
  return `${title.padEnd(9)} ${client.padEnd(11)}  ${requests} ${what}, ${errors} lost${why}${cuts}`;
}

/** @param {Row} row */
const kinds = (row) => [...row.errorKinds].map(([kind, count]) => `${count} × ${kind}`).join(', ');
