import { setTimeout as pause } from 'node:timers/promises';
import type { BalancerSnapshot, EndpointSnapshot } from '../balancer/snapshot.js';
import { asError } from '../errors.js';
import { systemClock } from '../runtime/clock.js';
import type { TopCommand } from './command-line.js';

const EVERY_MS = 1_000;
const TIMEOUT_MS = 5_000;
const CLEAR = '\u001b[H\u001b[2J';

type Shown = BalancerSnapshot & { readonly id: number };

interface Look {
  readonly atMs: number;
  readonly balancers: readonly Shown[];
}

/** Where it writes, and when it ends. */
export interface TopOutput {
  readonly write: (text: string) => void;
  /** Whether earlier output can be cleared. */
  readonly isTerminal: boolean;
  readonly signal: AbortSignal;
}

/** Shows every second what the balancers behind an admin page do. Returns the exit code. */
export async function top({ url, once }: TopCommand, { write, isTerminal, signal }: TopOutput): Promise<number> {
  let before: Look | undefined;
  while (!signal.aborted) {
    try {
      const look = await lookAt(url, signal);
      const text = printTop(look, before);
      // The first reading has no rates yet.
      if (before !== undefined || !once) write(isTerminal && !once ? CLEAR + text : `${text}\n`);
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

async function lookAt(url: URL, signal: AbortSignal): Promise<Look> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
  const response = await fetch(new URL('balancers', url), { signal: limit });
  if (!response.ok) throw new Error(`status ${response.status}; is this the address of createAdminHandler()?`);
  const { balancers } = (await response.json()) as { readonly balancers?: readonly Shown[] };
  if (!Array.isArray(balancers)) throw new Error('this is no admin page of evenkeel');
  return { atMs: systemClock.now(), balancers };
}

/** A table per balancer. Rates are since the previous reading. */
export function printTop({ atMs, balancers }: Look, before: Look | undefined): string {
  if (balancers.length === 0) return 'There is no balancer in this process yet.\n';
  return balancers
    .map((balancer) => {
      const last = before?.balancers.find(({ id }) => id === balancer.id);
      const spanMs = before === undefined ? 0 : atMs - before.atMs;
      const rows = balancer.endpoints.map((endpoint) => row(endpoint, last, spanMs));
      return `${head(balancer)}\n${table([['POD', 'STATE', 'CALLS/S', 'IN FLIGHT', 'COST', 'FAILED', ''], ...rows])}`;
    })
    .join('\n');
}

function head(balancer: Shown): string {
  const { resolver, discovery, counts, endpoints, waiting, limit } = balancer;
  const ready = endpoints.filter(({ state, suspect }) => state === 'ready' && !suspect).length;
  const retries = Object.values(counts.retries).reduce((sum, count) => sum + count, 0);
  const facts = [
    balancer.panicking ? 'PANIC' : balancer.state,
    `${ready} of ${endpoints.length} ready`,
    ...(discovery === undefined ? [] : [`found by ${discovery.mode}`]),
    ...(balancer.staleForMs > 0 ? [`unconfirmed for ${Math.round(balancer.staleForMs / 1_000)} s`] : []),
    ...(limit === undefined ? [] : [`limit ${limit.running}/${limit.max}`]),
    `${waiting} waiting`,
    `${retries} retries (budget ${balancer.retryBudget})`,
    `${counts.refused} refused`,
  ];
  return printable(`${resolver}  ${facts.join(', ')}`);
}

function row(endpoint: EndpointSnapshot, last: Shown | undefined, spanMs: number): string[] {
  const { key, name, address, state, suspect, ejectedBecause, inFlight, load, failed, lastError } = endpoint;
  const then = last?.endpoints.find((one) => one.key === key)?.started;
  const rate = then === undefined || spanMs <= 0 ? undefined : ((endpoint.started - then) * 1_000) / spanMs;
  const isOut = suspect || ejectedBecause !== undefined;
  return [
    printable(name ?? address),
    isOut ? 'out' : state,
    rate === undefined ? '–' : rate.toFixed(rate < 10 ? 1 : 0),
    String(inFlight),
    load < 0 ? '–' : load.toFixed(2),
    String(failed),
    printable(ejectedBecause ?? lastError ?? ''),
  ];
}

function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] as readonly string[]).map((_, column) =>
    Math.max(...rows.map((cells) => width(cells, column))),
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) =>
        column >= 2 && column <= 5 ? cell.padStart(widths[column] as number) : cell.padEnd(widths[column] as number),
      )
      .join('  ')
      .trimEnd();
  return rows.map((cells) => `  ${line(cells)}\n`).join('');
}

/** A pod's error may contain anything, including terminal commands. */
const printable = (text: string): string => text.replace(/\p{Cc}+/gu, ' ');

const width = (cells: readonly string[], column: number): number => (cells[column] as string).length;
