/** Markdown tables that also read well in a terminal. */

/**
 * @param {readonly string[]} head names of the columns; the first is aligned left, the others right unless `left` names them
 * @param {readonly (readonly string[])[]} rows
 * @param {readonly number[]} left further columns aligned left
 */
export function table(head, rows, left = []) {
  const isLeft = (/** @type {number} */ column) => column === 0 || left.includes(column);
  const widths = head.map((title, column) =>
    Math.max(3, ...[title, ...rows.map((row) => row[column] ?? '')].map(width)),
  );
  const line = (/** @type {readonly string[]} */ cells) =>
    `| ${widths.map((size, column) => pad(cells[column] ?? '', size, isLeft(column))).join(' | ')} |`;
  const rule = `|${widths.map((size, column) => (isLeft(column) ? '-'.repeat(size + 2) : `${'-'.repeat(size + 1)}:`)).join('|')}|`;
  return [line(head), rule, ...rows.map(line)].join('\n');
}

/** @param {string} text */
function width(text) {
  return [...text].length;
}

/** @param {string} text @param {number} size @param {boolean} left */
function pad(text, size, left) {
  const space = ' '.repeat(Math.max(0, size - width(text)));
  return left ? text + space : space + text;
}

/** `1.02 [0.99, 1.04]`. @param {import('./statistics.mjs').Interval} interval @param {number} digits */
export function withInterval({ median, low, high }, digits = 2) {
  return `${median.toFixed(digits)} [${low.toFixed(digits)}, ${high.toFixed(digits)}]`;
}

/** `12,345`. @param {number} value */
export function grouped(value) {
  return Math.round(value).toLocaleString('en-US');
}
