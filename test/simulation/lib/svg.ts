import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Tally } from './tally.js';

/** One line of a chart. */
export interface Series {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface Chart {
  readonly title: string;
  readonly x: string;
  readonly y: string;
  readonly series: readonly Series[];
  /** Labels of x values; numbers otherwise. */
  readonly xTicks?: readonly (readonly [at: number, label: string])[];
  readonly yLogarithmic?: boolean;
}

const WIDTH = 760;
const HEIGHT = 380;
const PLOT = { left: 64, top: 40, right: 560, bottom: 330 };
/** Colours that can be told apart with any kind of sight (Okabe, Ito), black last. */
const COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000'];
const DASHES = ['', '6 3', '2 3'];

/** A line chart as SVG, the same for the same numbers. Readable on light and dark pages. */
function svgChart({ title, x, y, series, xTicks, yLogarithmic = false }: Chart): string {
  const xs = series.flatMap(({ points }) => points.map(([at]) => at));
  const ys = series.flatMap(({ points }) => points.map(([, value]) => value));
  const scale = yLogarithmic ? Math.log10 : (value: number): number => value;
  const [minX, maxX] = [Math.min(...xs), Math.max(...xs)];
  const minY = yLogarithmic ? Math.floor(Math.log10(Math.min(...ys))) : 0;
  const maxY = yLogarithmic ? Math.ceil(Math.log10(Math.max(...ys))) : niceCeiling(Math.max(...ys));
  const atX = (value: number): number => PLOT.left + ((value - minX) / (maxX - minX)) * (PLOT.right - PLOT.left);
  const atY = (value: number): number =>
    PLOT.bottom - ((scale(value) - minY) / (maxY - minY)) * (PLOT.bottom - PLOT.top);
  const yValues = yLogarithmic
    ? Array.from({ length: maxY - minY + 1 }, (_, index) => 10 ** (minY + index))
    : Array.from({ length: 6 }, (_, index) => (maxY * index) / 5);
  const ticks =
    xTicks ??
    Array.from({ length: 7 }, (_, index) => minX + ((maxX - minX) * index) / 6).map((at) => [at, number(at)] as const);
  const lines = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">`,
    `<title>${title}</title>`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#ffffff"/>`,
    `<text x="${PLOT.left}" y="22" font-size="14" font-weight="bold">${title}</text>`,
    ...yValues.flatMap((value) => [
      `<line x1="${PLOT.left}" x2="${PLOT.right}" y1="${number(atY(value))}" y2="${number(atY(value))}" stroke="#dddddd"/>`,
      `<text x="${PLOT.left - 6}" y="${number(atY(value) + 4)}" text-anchor="end">${number(value)}</text>`,
    ]),
    ...ticks.map(
      ([at, label]) => `<text x="${number(atX(at))}" y="${PLOT.bottom + 18}" text-anchor="middle">${label}</text>`,
    ),
    `<text x="${(PLOT.left + PLOT.right) / 2}" y="${PLOT.bottom + 40}" text-anchor="middle">${x}</text>`,
    `<text transform="translate(16 ${(PLOT.top + PLOT.bottom) / 2}) rotate(-90)" text-anchor="middle">${y}</text>`,
    ...series.flatMap(({ name, points }, index) => {
      const colour = COLOURS[index % COLOURS.length];
      const dash = DASHES[Math.floor(index / COLOURS.length) % DASHES.length];
      const style = `fill="none" stroke="${colour}" stroke-width="2"${dash ? ` stroke-dasharray="${dash}"` : ''}`;
      const path = points.map(([at, value]) => `${number(atX(at))},${number(atY(value))}`).join(' ');
      const labelY = PLOT.top + 10 + index * 20;
      return [
        `<polyline points="${path}" ${style}/>`,
        `<line x1="${PLOT.right + 16}" x2="${PLOT.right + 44}" y1="${labelY}" y2="${labelY}" ${style}/>`,
        `<text x="${PLOT.right + 50}" y="${labelY + 4}">${name}</text>`,
      ];
    }),
    '</svg>',
  ];
  return `${lines.join('\n')}\n`;
}

/** Latency by the share of calls that are quicker, the slowest ones wide apart. */
export function latencyChart(
  title: string,
  y: string,
  tallies: readonly { readonly name: string; readonly tally: Tally }[],
): Chart {
  return {
    title,
    x: 'share of calls that are quicker',
    y,
    yLogarithmic: true,
    xTicks: [0.5, 0.9, 0.99, 0.999, 0.9999].map(
      (share) => [nines(share), `${Number((share * 100).toFixed(2))} %`] as const,
    ),
    series: tallies.map(({ name, tally }) => ({
      name,
      points: [0.5, 0.75, 0.9, 0.99, 0.999, 0.9999].map((share) => [nines(share), tally.quantileMs(share)] as const),
    })),
  };
}

const nines = (share: number): number => -Math.log10(1 - share);

/** Writes a chart as `simulation-<name>.svg`; with no folder, nothing. */
export function writeChart(images: string | undefined, name: string, chart: Chart): void {
  if (images === undefined) return;
  mkdirSync(images, { recursive: true });
  writeFileSync(join(images, `simulation-${name}.svg`), svgChart(chart));
}

function number(value: number): string {
  return String(Number(value.toPrecision(4)));
}

/** The next of 1, 2 or 5 times a power of ten. */
function niceCeiling(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10) * power;
}
