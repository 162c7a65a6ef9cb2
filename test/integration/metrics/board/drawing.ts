import type { Line, Panel } from './board.js';

/** What happened, to be marked in every panel. */
export interface Mark {
  readonly atS: number;
  readonly text: string;
}

const WIDTH = 1_440;
const ROW = 30;
const GAP = 8;
const colors = [
  '#73bf69',
  '#f2cc0c',
  '#8ab8ff',
  '#ff780a',
  '#f2495c',
  '#b877d9',
  '#5794f2',
  '#37872d',
  '#ffa6b0',
  '#fade2a',
];

/** The board as an HTML page, in the look of Grafana; panels on its grid of 24 columns. */
export function boardPage(
  drawn: readonly { panel: Panel; lines: readonly Line[] }[],
  fromS: number,
  toS: number,
  marks: readonly Mark[],
): string {
  const height = Math.max(...drawn.map(({ panel: { gridPos } }) => gridPos.y + gridPos.h)) * ROW + GAP;
  const panels = drawn.map(({ panel, lines }) => panelOf(panel, lines, fromS, toS, marks)).join('\n');
  return `<!doctype html><meta charset="utf-8"><style>
body { margin: 0; background: #111217; color: #ccccdc; font: 12px system-ui, sans-serif; width: ${WIDTH}px; height: ${height}px; position: relative }
section { position: absolute; background: #181b1f; border: 1px solid #2b2e34; border-radius: 3px; box-sizing: border-box; overflow: hidden }
h2 { font-size: 13px; font-weight: 500; margin: 6px 10px 0 }
ul { margin: 0; padding: 0 10px; list-style: none; position: absolute; bottom: 6px; left: 0; right: 0; max-height: 34px; overflow: hidden; line-height: 17px }
li { display: inline-block; margin-right: 12px; white-space: nowrap }
i { display: inline-block; width: 14px; height: 3px; margin-right: 5px; vertical-align: middle }
text { fill: #8e8e99; font: 10px system-ui, sans-serif }
</style>${panels}`;
}

function panelOf(
  { title, gridPos: { x, y, w, h }, fieldConfig }: Panel,
  lines: readonly Line[],
  fromS: number,
  toS: number,
  marks: readonly Mark[],
): string {
  const left = (x / 24) * WIDTH + GAP / 2;
  const width = (w / 24) * WIDTH - GAP;
  const height = h * ROW - GAP;
  const shown = lines.filter(({ points }) => points.length > 0);
  const chart = chartOf(shown, {
    width: width - 20,
    height: height - 76,
    fromS,
    toS,
    marks,
    unit: fieldConfig.defaults.unit,
  });
  const legend = shown.map(
    ({ legend }, index) => `<li><i style="background:${colorOf(index)}"></i>${escaped(legend.trim() || 'value')}</li>`,
  );
  return `<section style="left:${left}px;top:${y * ROW + GAP / 2}px;width:${width}px;height:${height}px"><h2>${escaped(title)}</h2>${chart}<ul>${legend.join('')}</ul></section>`;
}

interface Chart {
  readonly width: number;
  readonly height: number;
  readonly fromS: number;
  readonly toS: number;
  readonly marks: readonly Mark[];
  readonly unit: string;
}

function chartOf(lines: readonly Line[], { width, height, fromS, toS, marks, unit }: Chart): string {
  const most = Math.max(0, ...lines.flatMap(({ points }) => points.map(([, value]) => value)));
  const step = niceStep(most === 0 ? 1 : most, 4);
  const top = Math.max(step, Math.ceil(most / step) * step);
  const margin = { left: 52, bottom: 18, top: 14 };
  const inner = { width: width - margin.left, height: height - margin.bottom - margin.top };
  const px = (atS: number): number => margin.left + ((atS - fromS) / (toS - fromS)) * inner.width;
  const py = (value: number): number => margin.top + inner.height - (value / top) * inner.height;
  const parts: string[] = [];
  for (let value = 0; value <= top + step / 2; value += step) {
    parts.push(`<line x1="${margin.left}" x2="${width}" y1="${py(value)}" y2="${py(value)}" stroke="#2b2e34"/>`);
    parts.push(`<text x="${margin.left - 6}" y="${py(value) + 3}" text-anchor="end">${labelOf(value, unit)}</text>`);
  }
  for (let atS = 0; atS <= toS - fromS; atS += 10) {
    parts.push(`<text x="${px(fromS + atS)}" y="${height - 4}" text-anchor="middle">${atS} s</text>`);
  }
  for (const { atS, text } of marks) {
    parts.push(
      `<line x1="${px(atS)}" x2="${px(atS)}" y1="${margin.top}" y2="${margin.top + inner.height}" stroke="#5a5a66" stroke-dasharray="3 3"/>`,
    );
    parts.push(`<text x="${px(atS) + 3}" y="${margin.top - 4}">${escaped(text)}</text>`);
  }
  lines.forEach(({ points }, index) => {
    // A gap in the data is a gap in the line.
    let path = '';
    let last = Number.NEGATIVE_INFINITY;
    for (const [atS, value] of points) {
      path += `${atS - last > 2.5 ? 'M' : 'L'}${px(atS).toFixed(1)} ${py(value).toFixed(1)}`;
      last = atS;
    }
    parts.push(`<path d="${path}" fill="none" stroke="${colorOf(index)}" stroke-width="1.5"/>`);
    if (points.length === 1)
      parts.push(
        `<circle cx="${px(points[0]?.[0] ?? 0)}" cy="${py(points[0]?.[1] ?? 0)}" r="2" fill="${colorOf(index)}"/>`,
      );
  });
  return `<svg width="${width}" height="${height}" style="margin:2px 10px 0">${parts.join('')}</svg>`;
}

const colorOf = (index: number): string => colors[index % colors.length] as string;

/** 1, 2 or 5 times a power of ten, so that about `count` of them make `most`. */
function niceStep(most: number, count: number): number {
  const raw = most / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const factor = [1, 2, 5, 10].find((one) => one * power >= raw) ?? 10;
  return factor * power;
}

function labelOf(value: number, unit: string): string {
  const short = (number: number): string => String(Number(number.toPrecision(3)));
  if (unit === 's') return value < 1 ? `${short(1_000 * value)} ms` : `${short(value)} s`;
  if (unit === 'percentunit') return `${short(100 * value)} %`;
  return unit === 'ops' ? `${short(value)}/s` : short(value);
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
