import { describe, expect, it } from 'vitest';
import { ConnectionGroup, type GroupMember, type MemberEvents } from '../../../../src/adapter/kit/connection-group.js';
import { FakeClock, settle } from '../../../../src/testing/fake-clock.js';

class Member implements GroupMember {
  streams = 0;
  wasUsed = false;
  readyAtMs: number = Number.POSITIVE_INFINITY;
  capacity = 1;
  readonly events: MemberEvents;

  constructor(events: MemberEvents) {
    this.events = events;
  }

  release(): void {}
}

/** A group whose connections a test opens, or refuses to begin by throwing. */
class Fixture {
  readonly clock = new FakeClock();
  readonly members: Member[] = [];
  refuses = false;
  readonly group: ConnectionGroup<Member>;

  constructor(connections: { readonly min: number; readonly max: number }) {
    this.group = new ConnectionGroup<Member>({
      open: (events) => {
        if (this.refuses) throw new Error('no token');
        const member = new Member(events);
        this.members.push(member);
        return member;
      },
      connections,
      neverOpened: (reason) => new Error(reason),
      clock: this.clock,
      rng: { next: () => 0.5 },
    });
  }
}

describe('a group of connections', () => {
  it('gives no call to one that has no room while another has some', async () => {
    const { group, members } = new Fixture({ min: 2, max: 3 });
    members[0]?.events.ready();
    members[1]?.events.ready();
    await group.opened;
    const [first, second] = members as [Member, Member];
    first.capacity = 0;
    second.capacity = 2;
    group.countCapacity();
    for (let call = 0; call < 2; call++) {
      expect(group.next()).toBe(second);
      group.callStarted(second);
    }
    members[2]?.events.ready();
    expect(group.next()).toBe(members[2]);
  });
});

describe('a group of connections of which another cannot even begin to open', () => {
  it('goes on with those it has when it lacks some, and tries again after a pause', async () => {
    const fixture = new Fixture({ min: 2, max: 2 });
    fixture.refuses = true;
    fixture.members[0]?.events.ready();
    await fixture.group.opened;
    expect([fixture.group.size, fixture.members.length]).toEqual([1, 1]);
    fixture.refuses = false;
    fixture.clock.advance(1_000);
    expect(fixture.members).toHaveLength(2);
  });

  it('still begins a call when all connections are full', async () => {
    const fixture = new Fixture({ min: 1, max: 2 });
    fixture.members[0]?.events.ready();
    fixture.refuses = true;
    const member = fixture.group.next() as Member;
    fixture.group.callStarted(member);
    expect(member.streams).toBe(1);
    fixture.refuses = false;
    fixture.clock.advance(1_000);
    await settle();
    expect(fixture.members).toHaveLength(2);
  });
});
