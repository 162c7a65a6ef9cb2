/**
 * Returns the date `delayMs` from now, in ms since 1970, for interfaces that need a date. Everything else uses `Clock`, which does not
 * change with the system's date.
 */
export function dateIn(delayMs: number): number {
  return Date.now() + delayMs;
}

/** How long until a date, in ms; below 0 if it has passed. */
export function untilDate(date: number): number {
  return date - Date.now();
}

/** Returns the current date and time as a text for people, in ISO 8601 and UTC. */
export function timeOfDay(): string {
  return new Date().toISOString();
}
