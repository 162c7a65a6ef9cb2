import { randomInt } from 'node:crypto';
import type { Clock } from './clock.js';

/** Some members of one pod that tell each other something: workers of a cluster through their primary, or threads of a process. */
export interface Group {
  /** Our number in it; nobody else has it. */
  readonly self: number;
  /** False: nobody will hear us any more. */
  readonly isOpen: boolean;
  /** Asks once more who is there: `joined` is called again. Done at first without asking. */
  join(): void;
  /** Tells all others, or one of them. A message may get lost where a member is slow to read. */
  send(message: object, to?: number): void;
  /** Leaves it. */
  close(): void;
}

/** What a member of a group hears; nothing after `close`, and nothing before `openGroup` has returned. */
export interface GroupListener {
  /** We are in, with these others. Not called while nobody answers: a primary without evenkeel, an older or a busy one. */
  joined(others: readonly number[]): void;
  /** Another one came. */
  came(member: number): void;
  /** One has left, or its process is gone. A thread that is terminated leaves without a word. */
  gone(member: number): void;
  /** What another one tells; nobody has checked it. */
  heard(from: number, message: unknown): void;
}

/** Opens one; members with the same name meet. */
export type OpenGroup = (name: string, clock: Clock, listener: GroupListener) => Group;

/** Numbers are made of a worker's or thread's own, and one for each time it joins: evenkeel may be loaded several times. */
export const MEMBERS_EACH: number = 2 ** 32;

/** The number of a member; lower ones are of workers or threads that started earlier. */
export function memberNumber(unit: number): number {
  return unit * MEMBERS_EACH + randomInt(MEMBERS_EACH);
}
