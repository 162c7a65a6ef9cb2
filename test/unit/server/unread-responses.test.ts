import { describe, expect, it } from 'vitest';
import type { HttpResponse } from '../../../src/server/http-requests.js';
import type { ServedCall } from '../../../src/server/served-call.js';
import { UnreadResponses } from '../../../src/server/unread-responses.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';

function start() {
  const clock = new FakeClock();
  const unread = new UnreadResponses(clock);
  const closed: string[] = [];
  const add = (name: string, bytes: number) => {
    const response = { writableLength: bytes, destroy: () => void closed.push(name) };
    const call = {} as ServedCall;
    unread.add(call, response as unknown as HttpResponse);
    return { call, response };
  };
  return { clock, unread, closed, add };
}

describe('responses that wait for their readers', () => {
  it('are at most 16 per place of the limit: beyond that, the oldest that nobody reads are closed', () => {
    const { clock, unread, closed, add } = start();
    for (let index = 0; index < 33; index++) add(`${index}`, 100);
    clock.advance(1_000);
    unread.closeSlowest(2);
    expect(closed).toEqual(['0']);
  });

  it('hold at most 64 MiB: one byte more, and the one that is read slowest is closed', () => {
    const { clock, unread, closed, add } = start();
    const mib = 1024 * 1024;
    const fast = add('fast', 30 * mib);
    const slow = add('slow', 30 * mib);
    clock.advance(1_000);
    fast.response.writableLength -= 2 * mib;
    slow.response.writableLength -= mib;
    add('new', 7 * mib);
    unread.closeSlowest(8);
    expect(closed).toEqual([]);
    add('another', 1);
    unread.closeSlowest(8);
    expect(closed).toEqual(['slow']);
  });

  it('may hold more if there is one only', () => {
    const { clock, unread, closed, add } = start();
    add('small', 1);
    clock.advance(1_000);
    add('large', 100 * 1024 * 1024);
    unread.closeSlowest(8);
    expect(closed).toEqual(['small']);
  });

  it('no longer count once they are over', () => {
    const { unread, closed, add } = start();
    const { call } = add('1', 100 * 1024 * 1024);
    unread.delete(call);
    add('2', 1);
    unread.closeSlowest(8);
    expect(closed).toEqual([]);
  });
});
