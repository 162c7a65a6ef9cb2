import { optionError } from '../runtime/check.js';

/** Which waiting calls go first, and which are shed first. Without a `limit`, no call is shed. */
export type Priority = 'critical' | 'default' | 'sheddable';

/** All priorities, in the order in which waiting calls are served. */
export const priorities: readonly Priority[] = ['critical', 'default', 'sheddable'];

/** Whether a value, such as that of a header, is one of the priorities. */
export function isPriority(value: unknown): value is Priority {
  return priorities.includes(value as Priority);
}

/** Checks a priority; undefined means `default`. Throws EVENKEEL_OPTION for anything else. */
export function checkPriority(value: unknown): Priority {
  if (value === undefined) return 'default';
  if (!isPriority(value)) throw optionError('priority', `one of ${priorities.join(', ')}`, value);
  return value;
}
