import { describe, expect, it } from 'vitest';
import { AttemptHandlerV1 } from '../../../../src/adapter/undici/attempt-v1.js';
import { connectionMark, notBegunHeader } from '../../../../src/propagation/not-begun.js';
import { SharedTimers } from '../../../../src/runtime/shared-timers.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';
import {
  type ArrivedRequest,
  type Caller,
  CLIENT_PORT,
  HedgeFixture,
} from '../../../support/fixtures/fake-pod-pool.js';

describe('the response of a pod that refused a request before it began', () => {
  const refuse = (request: ArrivedRequest): ArrivedRequest => {
    const { address, port } = request.endpoint;
    return request.head(503, { [notBegunHeader]: connectionMark(address, port, CLIENT_PORT) });
  };
  async function refused(): Promise<{ fixture: HedgeFixture; caller: Caller; first: ArrivedRequest; timers: number }> {
    const fixture = await new HedgeFixture(2).ready();
    const { timers } = fixture.clock;
    const caller = fixture.askPlainly({ method: 'POST', body: 'again' });
    const first = refuse(fixture.last);
    expect(fixture.requests).toHaveLength(2);
    return { fixture, caller, first, timers };
  }
  const settled = async (fixture: HedgeFixture, caller: Caller, timers: number): Promise<void> => {
    fixture.last.answer(200, 'good');
    expect(caller.heard).toEqual(['200', 'good', 'end']);
    expect([fixture.requests.length, fixture.inFlight]).toEqual([2, 0]);
    await fixture.clock.advanceAsync(2_000);
    expect(fixture.clock.timers).toBe(timers);
  };

  it('is read to its end if it is short, while the request is at another pod', async () => {
    const { fixture, caller, first, timers } = await refused();
    first.data('busy').end();
    expect(first.aborted).toBeUndefined();
    await settled(fixture, caller, timers);
  });

  it('says no more to the caller what was sent of the body', async () => {
    const { fixture, caller, first, timers } = await refused();
    first.sentBody('to the first');
    expect(caller.heard).toEqual([]);
    fixture.last.sentBody('to the second');
    expect(caller.heard.splice(0)).toEqual(['sent to the second', 'all sent']);
    first.end();
    await settled(fixture, caller, timers);
  });

  it('says no more of it to a handler of the older form either', () => {
    const heard: unknown[] = [];
    const handler = { onBodySent: (chunk: unknown) => heard.push(chunk), onRequestSent: () => heard.push('all sent') };
    const timers = new SharedTimers(new FakeClock());
    const attempt = new AttemptHandlerV1(handler as never, {
      ...{ done: false, abortReason: undefined, timers },
      takes: () => false,
    });
    attempt.onConnect(() => {});
    attempt.onBodySent('before');
    attempt.onHeaders(503, [], () => {}, '');
    attempt.onBodySent('after');
    attempt.onRequestSent();
    attempt.onComplete([]);
    expect(heard).toEqual(['before']);
  });

  it('is cut after 64 KB', async () => {
    const { fixture, caller, first, timers } = await refused();
    first.data(60_000);
    expect(first.aborted).toBeUndefined();
    first.data(6_000);
    expect(first.aborted).toBeDefined();
    await settled(fixture, caller, timers);
  });

  it('is cut after a second', async () => {
    const { fixture, caller, first, timers } = await refused();
    await fixture.clock.advanceAsync(999);
    expect(first.aborted).toBeUndefined();
    await fixture.clock.advanceAsync(1);
    expect(first.aborted).toBeDefined();
    await settled(fixture, caller, timers);
  });

  it('ends by itself when the caller aborts, which ends the attempt at the other pod', async () => {
    const { fixture, caller, timers } = await refused();
    caller.controller?.abort(new Error('enough'));
    expect([caller.error?.message, fixture.requests.length, fixture.inFlight]).toEqual(['enough', 2, 0]);
    await fixture.clock.advanceAsync(2_000);
    expect(fixture.clock.timers).toBe(timers);
  });
});
