/** A member of a line. Only the waiting line reads and writes these fields. */
export interface InLine<T> {
  ahead: T | undefined;
  behind: T | undefined;
}

/** The waiting line: a queue in order of arrival whose members can leave from anywhere in O(1): a doubly linked list. */
export class WaitingLine<T extends InLine<T>> {
  oldest: T | undefined;
  newest: T | undefined;

  join(member: T): void {
    member.ahead = this.newest;
    member.behind = undefined;
    if (this.newest === undefined) this.oldest = member;
    else this.newest.behind = member;
    this.newest = member;
  }

  /**
   * Removes a member, which must be in the waiting line. Clears its links, so that a removed member that is still referenced keeps no other
   * in memory.
   */
  leave(member: T): void {
    const { ahead, behind } = member;
    if (ahead === undefined) this.oldest = behind;
    else ahead.behind = behind;
    if (behind === undefined) this.newest = ahead;
    else behind.ahead = ahead;
    member.ahead = undefined;
    member.behind = undefined;
  }
}
