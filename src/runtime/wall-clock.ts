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

/** The time of day, in ISO 8601 and UTC: for people, never for decisions. */
export function timeOfDay(): string {
  return new Date().toISOString();
}
