import { optionError } from './check.js';

/**
 * Which calls go first where calls wait, and which are turned away first. Only with a `limit` are calls turned away for it.
 */
export type Priority = 'critical' | 'default' | 'sheddable';

/** From the first to be served to the last. */
export const priorities: readonly Priority[] = ['critical', 'default', 'sheddable'];

export function isPriority(value: unknown): value is Priority {
  return priorities.includes(value as Priority);
}

/** Throws EVENKEEL_OPTION for anything else; undefined is the default. */
export function checkPriority(value: unknown): Priority {
  if (value === undefined) return 'default';
  if (!isPriority(value)) throw optionError('priority', `one of ${priorities.join(', ')}`, value);
  return value;
}
