/** One panel of a heat map: a number for each row and column; undefined = nothing is known. */
export interface Panel {
  readonly title: string;
  readonly values: readonly (readonly (number | undefined)[])[];
}

export interface HeatMap {
  readonly title: string;
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  /** What the rows and the columns are. */
  readonly axes: string;
  readonly panels: readonly Panel[];
}

const CELL = { width: 46, height: 22 };
const LEFT = 50;
const TOP = 62;
const PANELS_PER_ROW = 2;
const GAP = 28;
/** At this ratio and its inverse a colour is at its strongest. */
const STRONGEST = 2;

/** Ratios around 1 as an SVG: blue below, orange above. The same for the same numbers. Readable on light and dark pages. */
export function svgHeatMap({ title, rows, columns, axes, panels }: HeatMap): string {
  const panelWidth = LEFT + columns.length * CELL.width + GAP;
  const panelHeight = 48 + rows.length * CELL.height + GAP;
  const width = Math.min(PANELS_PER_ROW, panels.length) * panelWidth + 16;
  const height = TOP + Math.ceil(panels.length / PANELS_PER_ROW) * panelHeight;
  const lines = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11">`,
    `<title>${title}</title>`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    `<text x="16" y="24" font-size="14" font-weight="bold">${title}</text>`,
    `<text x="16" y="44">${axes}</text>`,
    ...panels.flatMap((panel, index) => {
      const x = 16 + (index % PANELS_PER_ROW) * panelWidth;
      const y = TOP + Math.floor(index / PANELS_PER_ROW) * panelHeight;
      return panelLines(panel, rows, columns, x, y);
    }),
    '</svg>',
  ];
  return `${lines.join('\n')}\n`;
}

function panelLines(
  { title, values }: Panel,
  rows: readonly string[],
  columns: readonly string[],
  x: number,
  y: number,
): string[] {
  const cellX = (column: number): number => x + LEFT + column * CELL.width;
  const cellY = (row: number): number => y + 44 + row * CELL.height;
  return [
    `<text x="${x}" y="${y + 14}" font-size="12" font-weight="bold">${title}</text>`,
    ...columns.map(
      (name, column) => `<text x="${cellX(column) + CELL.width / 2}" y="${y + 36}" text-anchor="middle">${name}</text>`,
    ),
    ...rows.flatMap((name, row) => [
      `<text x="${x + LEFT - 8}" y="${cellY(row) + 15}" text-anchor="end">${name}</text>`,
      ...columns.flatMap((_column, column) => {
        const value = values[row]?.[column];
        if (value === undefined) return [];
        const [cx, cy] = [cellX(column), cellY(row)];
        return [
          `<rect x="${cx}" y="${cy}" width="${CELL.width - 1}" height="${CELL.height - 1}" fill="${colour(value)}"/>`,
          `<text x="${cx + CELL.width / 2}" y="${cy + 15}" text-anchor="middle">${value.toFixed(2)}</text>`,
        ];
      }),
    ]),
  ];
}

/** White at 1; blue to the one side and orange to the other, as strong as the ratio is far. Light enough for black figures. */
function colour(ratio: number): string {
  const strength = Math.min(1, Math.abs(Math.log(ratio)) / Math.log(STRONGEST));
  const strongest = ratio < 1 ? [120, 180, 225] : [240, 150, 90];
  const parts = strongest.map((part) => Math.round(255 + (part - 255) * strength));
  return `#${parts.map((part) => part.toString(16).padStart(2, '0')).join('')}`;
}
