/** The links of a member of a waiting line. Only `WaitingLine` reads and writes them. */
export interface InLine<T> {
  ahead: T | undefined;
  behind: T | undefined;
}

/** A queue in order of arrival whose members can leave from any position in O(1). It is a doubly linked list. */
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

  /** Removes a member, which must be in this line. Its links are cleared, so that a removed member keeps no other member in memory. */
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
