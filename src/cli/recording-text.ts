import type { Contents } from '../recorder/explained.js';
import type { Made, RecordedEndpoint } from '../recorder/format.js';
import type { Dump, DumpedBalancer } from '../recorder/read-dump.js';
import type { WallClock } from './recording-file.js';

/** The largest number of calls, notes and endpoints that `evenkeel explain` lists. */
export const LISTED = 20;

export function nameOf({ name, key, address, port }: RecordedEndpoint): string {
  return name === undefined || name === key ? (key.split('#', 1)[0] as string) : `${name} (${address}:${port})`;
}

export function madeText(made: Made | undefined): string {
  if (made === undefined) return "the application's own";
  const options = Object.entries(made.options);
  return options.length === 0 ? made.name : `${made.name} ${JSON.stringify(made.options)}`;
}

export function summaryOf(dump: Dump, balancer: DumpedBalancer, contents: Contents, clock: WallClock): string[] {
  const { configuration } = balancer;
  const { calls, refused, notes, fromMs, toMs } = contents;
  const lines = [
    `${balancer.name}: ${calls.length} calls in ${((toMs - fromMs) / 1_000).toFixed(1)} s, ${clock.of(fromMs)} to ${clock.of(toMs)} UTC${refused > 0 ? `, ${refused} refused` : ''}`,
    `picker ${madeText(configuration.picker)}, load ${madeText(configuration.load)}, stages ${configuration.stages.map((stage) => stage ?? "(the application's)").join(', ') || 'none'}`,
  ];
  if (dump.balancers.length > 1) {
    const others = dump.balancers.map(({ name }, index) => `${index + 1} ${name}`).join(', ');
    lines.push(`of ${dump.balancers.length} balancers (--balancer): ${others}`);
  }
  if (dump.leftOut > 0) lines.push(`${dump.leftOut} balancers were not recorded: there was no room (bytes)`);
  for (const { note, endpoint } of notes.slice(-LISTED)) {
    const who = endpoint === undefined ? '' : `${nameOf(endpoint)} `;
    lines.push(`${clock.of(note.at)}  ${who}${noteText(note)}`);
  }
  return lines;
}

export function noteText({
  what,
  text,
  durationMs,
}: {
  readonly what: string;
  readonly text?: string;
  readonly durationMs?: number;
}): string {
  const names: ReadonlyMap<string, string> = new Map([
    ['lost', 'connection lost'],
    ['panic', 'panic: all endpoints are used'],
    ['calm', 'panic is over'],
    ['resolve-failed', 'lookup failed'],
    ['recovered', 'lookups work again'],
    ['closed', 'balancer closed'],
  ]);
  const duration = durationMs === undefined ? '' : ` for ${ms(durationMs)}`;
  return `${names.get(what) ?? what}${duration}${text === undefined ? '' : ` (${text})`}`;
}

export function outcomeText({ kind, cause }: { readonly kind: string; readonly cause?: string }): string {
  return cause === undefined ? kind : `${kind} (${cause})`;
}

export function ms(value: number): string {
  if (!Number.isFinite(value)) return '?';
  if (Math.abs(value) >= 10_000) return `${(value / 1_000).toFixed(1)} s`;
  return `${value >= 100 ? value.toFixed(0) : value.toFixed(1)} ms`;
}

export function round(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toPrecision(3);
}

export function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}

export function table(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) for (const [at, cell] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, cell.length);
  return rows.map((row) => `  ${row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  ')}`.trimEnd());
}
