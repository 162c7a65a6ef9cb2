/**
 * The date `delayMs` from now, in ms since 1970, for interfaces that take dates. Our own decisions use `Clock`.
 */
export function dateIn(delayMs: number): number {
  return Date.now() + delayMs;
}

/** How long until a date, in ms; below 0 if it has passed. */
export function untilDate(date: number): number {
  return date - Date.now();
}

/** A time in ms since 1970 as ISO 8601 in UTC: for people. Undefined if there is no such date. */
export function isoOf(ms: number): string | undefined {
  return Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : undefined;
}

/** The time of day, in ISO 8601 and UTC: for people, never for decisions. */
export function timeOfDay(): string {
  return new Date().toISOString();
}
