import { describe, expect, it } from 'vitest';
import { ConnectGate, type GateVisitor } from '../../../src/pool/connect-gate.js';
import { FakeClock, settle } from '../../../src/testing/fake-clock.js';

/** Visitors by name, and who has begun. */
function gate(limit: number): {
  gate: ConnectGate;
  begun: string[];
  enter(name: string, again?: boolean): GateVisitor;
} {
  const begun: string[] = [];
  const made = new ConnectGate(limit, new FakeClock());
  return {
    gate: made,
    begun,
    enter(name, again = false) {
      const visitor = { begin: () => begun.push(name) };
      made.enter(visitor, again);
      return visitor;
    },
  };
}

describe('the connect gate', () => {
  it('lets so many begin at once, the others in order as places become free', async () => {
    const { gate: door, begun, enter } = gate(2);
    const [a] = ['a', 'b', 'c', 'd'].map((name) => enter(name));
    expect(begun).toEqual(['a', 'b']);
    door.left(a as GateVisitor);
    await settle();
    expect(begun).toEqual(['a', 'b', 'c']);
  });

  it('forgets whoever gives up waiting', async () => {
    const { gate: door, begun, enter } = gate(1);
    const [a, b] = ['a', 'b', 'c'].map((name) => enter(name)) as [GateVisitor, GateVisitor];
    expect(door.giveUp(b)).toBe(true);
    expect(door.giveUp(a)).toBe(false);
    door.left(a);
    await settle();
    expect(begun).toEqual(['a', 'c']);
  });

  it('begins nobody who is called off in the same turn as those before him', async () => {
    const { gate: door, begun, enter } = gate(2);
    const visitors = Array.from({ length: 1_000 }, (_, i) => enter(String(i)));
    for (const visitor of visitors) if (!door.giveUp(visitor)) door.left(visitor);
    await settle();
    expect(begun).toHaveLength(2);
  });

  it('lets newcomers pass those whose endpoint failed lately, and keeps half of the places for them', async () => {
    const { gate: door, begun, enter } = gate(4);
    const failing = Array.from({ length: 100 }, (_, i) => enter(`failing ${i}`, true));
    expect(begun).toEqual(['failing 0', 'failing 1']);
    enter('new 1');
    enter('new 2');
    expect(begun.slice(2)).toEqual(['new 1', 'new 2']);
    enter('new 3');
    door.left(failing[0] as GateVisitor);
    await settle();
    expect(begun.slice(4)).toEqual(['new 3']);
  });

  it('always has a place for those that failed, too', () => {
    const { begun, enter } = gate(1);
    enter('failing', true);
    expect(begun).toEqual(['failing']);
  });

  it('knows no bound where the limit is Infinity', () => {
    const { begun, enter } = gate(Number.POSITIVE_INFINITY);
    for (let i = 0; i < 500; i++) enter(String(i), i % 2 === 0);
    expect(begun).toHaveLength(500);
  });
});
