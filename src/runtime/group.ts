import { randomInt } from 'node:crypto';
import type { Clock } from './clock.js';

/** Members of one pod that exchange messages: workers of a cluster through their primary, or threads of a process. */
export interface Group {
  /** This member's number, which no other member has. */
  readonly self: number;
  /** False: messages no longer reach other members. */
  readonly isOpen: boolean;
  /** Looks up the members again, and calls `joined` again. The first time happens by itself. */
  join(): void;
  /** Sends to all other members, or to one. A message may get lost if a member reads slowly. */
  send(message: object, to?: number): void;
  /** Leaves it. */
  close(): void;
}

/** Receives a group's events; never after `close`, and never before `openGroup` has returned. */
export interface GroupListener {
  /** We have joined, with these other members. Not called without an answer: from a primary without evenkeel, an older or a busy one. */
  joined(others: readonly number[]): void;
  /** Another member joined. */
  came(member: number): void;
  /** A member left, or its process is gone. A terminated thread leaves without notice. */
  gone(member: number): void;
  /** A message from another member; unchecked. */
  heard(from: number, message: unknown): void;
}

/** Joins a group; members with the same name meet. */
export type OpenGroup = (name: string, clock: Clock, listener: GroupListener) => Group;

/** A number combines the worker's or thread's own and one per join, because evenkeel may be loaded several times. */
export const MEMBERS_EACH: number = 2 ** 32;

/** A member's number; lower ones are workers or threads that started earlier. */
export function memberNumber(unit: number): number {
  return unit * MEMBERS_EACH + randomInt(MEMBERS_EACH);
}
