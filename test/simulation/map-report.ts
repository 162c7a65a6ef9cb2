import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { seededRng } from '../../src/testing/seeded-rng.js';
import { play } from './lib/balance.js';
import { byPeakEwma, callsInFlight, leastInFlight, stock, withoutReports, withReports } from './lib/contenders.js';
import { fleet, shapes } from './lib/fleet.js';
import { svgHeatMap } from './lib/heat-map.js';
import { markdownTable } from './lib/table.js';
import type { Strategy } from './lib/world.js';

export interface MapOptions {
  readonly clients: readonly number[];
  readonly pods: readonly number[];
  /** Shares of all cores, 0 to 1. */
  readonly loads: readonly number[];
  readonly seeds: number;
  /** Calls that are measured per seed, as a multiple of `CALLS`. */
  readonly effort: number;
  /** A name of `shapes`. */
  readonly shape: string;
  /** The default with reports of the servers is compared, not the one without. */
  readonly reports: boolean;
  /** The median of some ratios, and how sure it is. */
  readonly interval: (values: readonly number[], random: () => number, resamples: number) => Interval;
  /** Where the picture is written. @defaultValue nowhere */
  readonly image?: string | undefined;
}

/** Calls per seed: a 99th percentile of 200 calls. */
const CALLS = 20_000;
const WARM_UP_MS = 20_000;
const LEAST_MS = 15_000;
const RESAMPLES = 1_000;

const rivals: readonly Strategy[] = [stock, callsInFlight, leastInFlight, byPeakEwma];

/** A median with its 95 % interval. */
export interface Interval {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

interface Cell {
  readonly clients: number;
  readonly pods: number;
  readonly load: number;
  /** p99 of ours over that of each rival, paired by seed. */
  readonly ratios: readonly Interval[];
}

/** The 99th percentile of the default over those of others, for many sizes of fleet: a table for each, and a picture. */
export async function reportMap(options: MapOptions): Promise<void> {
  const { clients, pods, loads, seeds, shape, reports, image } = options;
  const shaped = shapes[shape];
  if (shaped === undefined) throw new Error(`no shape ${shape}; there are ${Object.keys(shapes).join(', ')}`);
  const ours = reports ? withReports : withoutReports;
  const cells: Cell[] = [];
  const count = clients.length * pods.length * loads.length;
  for (const podCount of pods) {
    for (const load of loads) {
      for (const clientCount of clients) {
        const cell = await cellOf(ours, clientCount, podCount, load, options);
        cells.push(cell);
        console.error(`${cells.length} of ${count}: ${describe(cell)}`);
      }
    }
  }
  const title = `${ours.name}: p99 over that of others; ${shaped.title}`;
  const find = (client: number, pod: number, load: number): Cell =>
    cells.find((cell) => cell.clients === client && cell.pods === pod && cell.load === load) as Cell;
  console.log(`\n${title}. Median of ${seeds} seed(s), paired, with its 95 % interval; in bold where it is behind.`);
  for (const [index, rival] of rivals.entries()) {
    console.log(`\nagainst ${rival.name}\n`);
    const rows = pods.flatMap((pod) =>
      loads.map((load) => [
        `${pod} pods, ${Math.round(load * 100)} %`,
        ...clients.map((client) => shown(find(client, pod, load).ratios[index] as Interval, pod)),
      ]),
    );
    console.log(markdownTable(['', ...clients.map((client) => `${client} client${client === 1 ? '' : 's'}`)], rows));
  }
  if (image === undefined) return;
  mkdirSync(dirname(image), { recursive: true });
  const svg = svgHeatMap({
    title,
    axes: 'Rows: clients. Columns: pods, and the share of their cores that is used. Below 1 (blue) the default is faster.',
    rows: clients.map(String),
    columns: pods.flatMap((pod) => loads.map((load) => `${pod}, ${Math.round(load * 100)}`)),
    panels: rivals.map((rival, index) => ({
      title: `against ${rival.name}`,
      values: clients.map((client) =>
        pods.flatMap((pod) => loads.map((load) => find(client, pod, load).ratios[index]?.median)),
      ),
    })),
  });
  writeFileSync(image, svg);
}

async function cellOf(
  ours: Strategy,
  clients: number,
  pods: number,
  load: number,
  { seeds, effort, shape, interval }: MapOptions,
): Promise<Cell> {
  const plain = fleet(clients, pods, load);
  const lengthMs = Math.max(LEAST_MS, (CALLS * effort * 1_000) / plain.callsPerSecond);
  const change = (shapes[shape] as (typeof shapes)[string]).change;
  const scenario = change({ ...plain, warmUpMs: WARM_UP_MS, lengthMs });
  const ratios = rivals.map((): number[] => []);
  for (let seed = 1; seed <= seeds; seed++) {
    const p99 = async (strategy: Strategy): Promise<number> =>
      (await play(strategy, seed, scenario))[0].quantileMs(0.99);
    const oursMs = await p99(ours);
    for (const [index, rival] of rivals.entries()) ratios[index]?.push(oursMs / (await p99(rival)));
  }
  const rng = seededRng(1);
  return { clients, pods, load, ratios: ratios.map((each) => interval(each, () => rng.next(), RESAMPLES)) };
}

/** At 2 and 3 pods evenness is bought. */
const allowed = (pods: number): number => (pods <= 3 ? 1.15 : 1.05);

function shown({ median, low, high }: Interval, pods: number): string {
  const text = `${median.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)})`;
  return high > allowed(pods) ? `**${text}**` : text;
}

function describe({ clients, pods, load, ratios }: Cell): string {
  const each = ratios.map(({ median }, index) => `${(rivals[index] as Strategy).name} ${median.toFixed(2)}`);
  return `${clients} × ${pods} at ${Math.round(load * 100)} %: ${each.join(', ')}`;
}
