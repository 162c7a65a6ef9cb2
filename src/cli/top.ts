import { setTimeout as pause } from 'node:timers/promises';
import type { EndpointSnapshot } from '../balancer/snapshot.js';
import { asError } from '../errors.js';
import { systemClock } from '../runtime/clock.js';
import { type AdminFacts, readAdminPage } from './admin-page.js';
import type { TopCommand } from './command-line.js';

const EVERY_MS = 1_000;

type Shown = AdminFacts['balancers'][number];

interface Look {
  readonly atMs: number;
  readonly balancers: readonly Shown[];
}

/** Where `evenkeel top` writes its output, and the signal that ends it. */
export interface TopOutput {
  readonly write: (text: string) => void;
  readonly clear: () => void;
  /**
   * Returns the current size of the terminal in characters; undefined if the output is not a terminal. In that case it is neither cleared
   * nor cut to a size.
   */
  readonly size: () => TerminalSize | undefined;
  readonly signal: AbortSignal;
}

export interface TerminalSize {
  readonly rows: number;
  readonly columns: number;
}

/** Runs `evenkeel top`: shows every second what the balancers of a process do. Returns the exit code. */
export async function top({ url, once }: TopCommand, { write, clear, size, signal }: TopOutput): Promise<number> {
  let before: Look | undefined;
  while (!signal.aborted) {
    try {
      const { balancers } = await readAdminPage(url, signal);
      const look = { atMs: systemClock.now(), balancers };
      const terminal = size();
      const text = printTop(look, before, terminal);
      // Rates are computed from two readings of the admin page. With `--once`, the first one is therefore not shown.
      if (before !== undefined || !once) {
        if (terminal !== undefined && !once) clear();
        write(terminal !== undefined && !once ? text : `${text}\n`);
      }
      if (once && before !== undefined) return 0;
      before = look;
    } catch (error) {
      if (signal.aborted) break;
      const { message, cause } = asError(error);
      write(`${url}: ${cause instanceof Error ? cause.message : message}\n`);
      if (once || before === undefined) return 2;
    }
    await pause(EVERY_MS, undefined, { signal }).catch(() => {});
  }
  return 0;
}

/** Formats a table per balancer, cut to the size of the terminal. Rates are since the previous reading. */
export function printTop({ atMs, balancers }: Look, before: Look | undefined, terminal?: TerminalSize): string {
  if (balancers.length === 0) return 'There is no balancer in this process yet.\n';
  const spanMs = before === undefined ? 0 : atMs - before.atMs;
  // Five lines of each balancer show no pods: two of its head, one of column names, one that says what is cut, and an empty one below.
  const most = terminal === undefined ? Number.POSITIVE_INFINITY : Math.floor(terminal.rows / balancers.length) - 5;
  const text = balancers
    .map((balancer) => {
      const last = before?.balancers.find(({ id }) => id === balancer.id);
      return printBalancer(balancer, last, spanMs, Math.max(3, most));
    })
    .join('\n');
  if (terminal === undefined) return text;
  const lines = text.split('\n').slice(0, terminal.rows - 1);
  return lines.map((line) => line.slice(0, terminal.columns)).join('\n');
}

/** Formats the table of one balancer: endpoints that need attention come first, then the busiest. */
function printBalancer(balancer: Shown, last: Shown | undefined, spanMs: number, most: number): string {
  const started = new Map(last?.endpoints.map((endpoint) => [endpoint.key, endpoint.started]));
  const rated = balancer.endpoints.map((endpoint) => {
    const then = started.get(endpoint.key);
    const rate = then === undefined || spanMs <= 0 ? undefined : ((endpoint.started - then) * 1_000) / spanMs;
    return { endpoint, rate };
  });
  rated.sort((a, b) => attention(b.endpoint) - attention(a.endpoint) || (b.rate ?? 0) - (a.rate ?? 0));
  const rest = rated.slice(most);
  const hasPlaces = balancer.endpoints.some(({ place }) => place !== undefined);
  const rows = rated.slice(0, most).map(({ endpoint, rate }) => row(endpoint, rate, hasPlaces));
  return [
    `${head(balancer)}\n`,
    `  ${countsByStatus(balancer.endpoints)}\n`,
    table([
      ['POD', 'STATE', 'CALLS/S', 'IN FLIGHT', ...(hasPlaces ? ['PLACE'] : []), 'COST', 'FAILED', 'WHY FEWER CALLS'],
      ...rows,
    ]),
    rest.length === 0 ? '' : `  … and ${rest.length} more: ${countsByStatus(rest.map(({ endpoint }) => endpoint))}\n`,
  ].join('');
}

const attention = ({ why }: EndpointSnapshot): number => (why === undefined ? 0 : 1);

/** Counts the endpoints in each state, such as `97 ready, 2 ejected, 1 backoff`. */
function countsByStatus(endpoints: readonly EndpointSnapshot[]): string {
  const counts = new Map<string, number>();
  for (const { status } of endpoints) counts.set(status, (counts.get(status) ?? 0) + 1);
  const parts = [...counts].sort(([, a], [, b]) => b - a).map(([status, count]) => `${count} ${status}`);
  return parts.length === 0 ? 'no pods' : printable(parts.join(', '));
}

function head(balancer: Shown): string {
  const { resolver, discovery, counts, waiting, limit } = balancer;
  const retries = Object.values(counts.retries).reduce((sum, count) => sum + count, 0);
  const facts = [
    balancer.panicking ? 'PANIC: all pods are used' : balancer.state,
    ...(discovery === undefined ? [] : [`found by ${discovery.mode}`]),
    ...(balancer.staleForMs > 0 ? [`unconfirmed for ${Math.round(balancer.staleForMs / 1_000)} s`] : []),
    ...(limit === undefined ? [] : [`limit ${limit.running}/${limit.max}`]),
    `${waiting} waiting`,
    `${retries} retries (budget ${balancer.retryBudget})`,
    `${counts.refused} refused`,
  ];
  return printable(`${resolver}  ${facts.join(', ')}`);
}

/**
 * Formats the table's row for one pod. The cost is a multiple of the cheapest pod's, because the load's own unit differs from load to load.
 */
function row(
  { name, address, status, why, inFlight, place, relativeCost, failed }: EndpointSnapshot,
  rate: number | undefined,
  hasPlaces: boolean,
): string[] {
  return [
    printable(name ?? address),
    status,
    rate === undefined ? '–' : rate.toFixed(rate < 10 ? 1 : 0),
    String(inFlight),
    ...(hasPlaces ? [place === undefined ? '–' : String(place)] : []),
    relativeCost < 0 ? '–' : `${relativeCost.toFixed(1)}×`,
    String(failed),
    printable(why ?? ''),
  ];
}

function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] as readonly string[]).map((_, column) =>
    Math.max(...rows.map((cells) => width(cells, column))),
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) =>
        column >= 2 && column < cells.length - 1
          ? cell.padStart(widths[column] as number)
          : cell.padEnd(widths[column] as number),
      )
      .join('  ')
      .trimEnd();
  return rows.map((cells) => `  ${line(cells)}\n`).join('');
}

/** Removes control characters from an error message, which may contain anything, including terminal commands. */
const printable = (text: string): string => text.replace(/\p{Cc}+/gu, ' ');

const width = (cells: readonly string[], column: number): number => (cells[column] as string).length;
