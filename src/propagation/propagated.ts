import { optionError } from '../runtime/check.js';
import { checkedOption, type Option } from '../runtime/options.js';

/**
 * The request header that says how long the caller will wait for the response, in whole ms. It is a duration, so clocks need not agree.
 * Envoy sends it upstream, and removes it from requests that come from outside.
 */
export const deadlineHeader = 'x-envoy-expected-rq-timeout-ms';
/** The header, or gRPC metadata key, that carries a request's priority. */
export const priorityHeader = 'x-request-priority';

/** The longest deadline that is accepted from a header, in ms. */
const MAX_DEADLINE_MS = 86_400_000;
const MAX_DIGITS = 15;
const ZERO = 48;

/** Creates an option for the name of a header. The name is converted to lower case; false becomes undefined. */
export function headerOption(usual: string): Option<string | undefined> {
  return checkedOption<string | undefined>(usual, (name, value) => {
    if (value === false) return undefined;
    if (typeof value !== 'string' || !/^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(value)) {
      throw optionError(name, 'the name of a header, or false', value);
    }
    return value.toLowerCase();
  });
}

/** Reads a deadline, in ms, from the value of a header; undefined if the value is invalid. */
export function parseDeadline(value: unknown): number | undefined {
  if (typeof value !== 'string' || value.length === 0 || value.length > MAX_DIGITS) return undefined;
  // This runs for every request, and a regular expression takes ten times as long.
  let ms = 0;
  for (let index = 0; index < value.length; index++) {
    const digit = value.charCodeAt(index) - ZERO;
    if (digit < 0 || digit > 9) return undefined;
    ms = 10 * ms + digit;
  }
  return Math.min(ms, MAX_DEADLINE_MS);
}

/** Writes a deadline as the value of a header: whole ms, never more than what is left. */
export function formatDeadline(remainingMs: number): string {
  return String(Math.max(0, Math.floor(remainingMs)));
}

/** Returns the shorter of two times in ms; undefined = no limit. */
export function shorter(a: number | undefined, b: number | undefined): number | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return Math.min(a, b);
}
