import { readFileSync } from 'node:fs';
import { EvenkeelError } from '../errors.js';
import type { Dump, DumpedBalancer } from '../recorder/read-dump.js';
import { quoted } from '../runtime/check.js';
import { isoOf } from '../runtime/wall-clock.js';

export function readFile(file: string): Uint8Array {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new EvenkeelError('EVENKEEL_OPTION', `cannot read ${quoted(file, 200)}: ${(error as Error).message}`);
  }
}

/**
 * Returns the balancer in a recording that the user named. If none was named, returns the one of which most was recorded. Throws
 * EVENKEEL_OPTION if there is none.
 */
export function chosen({ balancers, leftOut }: Dump, name: string | undefined): DumpedBalancer {
  const candidates =
    name === undefined
      ? [...balancers].sort((a, b) => lengthOf(b) - lengthOf(a))
      : balancers.filter((balancer, index) => balancer.name.includes(name) || String(index + 1) === name);
  const [first] = candidates;
  if (first !== undefined) return first;
  if (balancers.length === 0) {
    const why = leftOut > 0 ? `: there was no room for ${leftOut}; give flightRecorder more bytes` : '';
    throw new EvenkeelError('EVENKEEL_OPTION', `the recording contains no balancer${why}`);
  }
  const names = balancers.map((balancer) => balancer.name).join(', ');
  throw new EvenkeelError('EVENKEEL_OPTION', `no balancer is called ${quoted(name ?? '', 80)}; there are ${names}`);
}

/** Converts times on a balancer's clock to times of day, and back. */
export class WallClock {
  readonly #offsetMs: number;
  readonly #madeAtMs: number;

  constructor({ madeAtMs }: Dump, { nowMs }: DumpedBalancer) {
    this.#madeAtMs = madeAtMs;
    this.#offsetMs = madeAtMs - nowMs;
  }

  /** Formats a time on the balancer's clock as a time of day in UTC, with milliseconds. */
  of(atMs: number): string {
    return isoOf(atMs + this.#offsetMs)?.slice(11, 23) ?? `${atMs} ms`;
  }

  /** Converts a date, or a time of day on the day of the recording, to a time of the balancer's clock. Throws EVENKEEL_OPTION. */
  parse(text: string): number {
    const day = isoOf(this.#madeAtMs)?.slice(0, 11);
    const time = Date.parse(/^\d{1,2}:\d\d/.test(text) ? `${day}${text.padStart(5, '0')}Z` : text);
    if (Number.isNaN(time)) {
      throw new EvenkeelError('EVENKEEL_OPTION', `--at needs a time such as 12:03:04.5, got ${quoted(text, 80)}`);
    }
    return time - this.#offsetMs;
  }
}

function lengthOf({ parts }: DumpedBalancer): number {
  return parts.reduce((sum, { length }) => sum + length, 0);
}
