/** Bar charts as SVG, the same for the same numbers. Readable on light and dark pages. */

const WIDTH = 860;
const ROW = 24;
const TOP = 64;
const LABEL = 350;
const NOTE = 150;
/** Colours that can be told apart with any kind of sight (Okabe, Ito): ours, others. */
const OURS = '#d55e00';
const OTHERS = '#0072b2';

/**
 * @param {{ title: string, subtitle: string, rows: readonly { label: string, value: number, note: string, ours: boolean }[] }} chart
 *   `note` stands behind the bar
 */
export function barChart({ title, subtitle, rows }) {
  const most = Math.max(1e-9, ...rows.map(({ value }) => value));
  const height = TOP + rows.length * ROW + 12;
  const lines = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="12">`,
    `<title>${escaped(title)}</title>`,
    `<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>`,
    `<text x="16" y="24" font-size="14" font-weight="bold">${escaped(title)}</text>`,
    `<text x="16" y="44" fill="#444444">${escaped(subtitle)}</text>`,
  ];
  for (const [index, { label, value, note, ours }] of rows.entries()) {
    const y = TOP + index * ROW;
    const length = ((WIDTH - LABEL - NOTE) * Math.max(0, value)) / most;
    lines.push(
      `<text x="${LABEL - 8}" y="${y + 15}" text-anchor="end"${ours ? ' font-weight="bold"' : ''}>${escaped(label)}</text>`,
      `<rect x="${LABEL}" y="${y + 3}" width="${length.toFixed(1)}" height="${ROW - 7}" fill="${ours ? OURS : OTHERS}"/>`,
      `<text x="${(LABEL + length + 6).toFixed(1)}" y="${y + 15}">${escaped(note)}</text>`,
    );
  }
  lines.push('</svg>');
  return `${lines.join('\n')}\n`;
}

/** @param {string} text */
function escaped(text) {
  return text.replace(/[&<>]/g, (sign) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[sign] ?? sign);
}
