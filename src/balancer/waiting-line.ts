/** What can stand in a line. The fields belong to the line. */
export interface InLine<T> {
  ahead: T | undefined;
  behind: T | undefined;
}

/** A line in order of arrival that anybody can leave at once: a doubly linked list. */
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

  /** In the line, once. Its links are cleared, so that who left long ago keeps nobody in memory. */
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
