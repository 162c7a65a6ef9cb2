// @ts-check
/** The result of `--once` as a table. */
import { formatMs } from './terminal.js';

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

/** Why requests were lost, and how many for each reason. @param {Row} row */
export const kinds = (row) => [...row.errorKinds].map(([kind, count]) => `${count} × ${kind}`).join(', ');
