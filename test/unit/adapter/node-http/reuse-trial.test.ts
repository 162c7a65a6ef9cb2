import { EventEmitter } from 'node:events';
import type { ClientRequest } from 'node:http';
import { beforeEach, describe, expect, it } from 'vitest';
import { ReuseTrial } from '../../../../src/adapter/node-http/idle-sockets.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';

let clock: FakeClock;
let trial: ReuseTrial;

const request = (): ClientRequest => new EventEmitter() as unknown as ClientRequest;
/** What a request does that comes now, when a connection was idle for so long, in ms. */
const now = (idleMs: number, isFull = false): string => trial.decide(idleMs, trial.deadlineMs, isFull);

beforeEach(() => {
  clock = new FakeClock();
  trial = new ReuseTrial(clock);
});

describe('a pod that has not shown whether it keeps connections', () => {
  it('has one request try an idle connection, while the others wait for the result', () => {
    expect(now(4)).toBe('wait');
    expect(now(5)).toBe('use');
    const first = request();
    trial.tries(first);
    expect(now(5)).toBe('wait');
    expect(trial.mayTry(trial.deadlineMs, false)).toBe(false);
    first.emit('close');
    expect(now(5)).toBe('use');
  });

  it('lets a request wait 25 ms for the result, and then opens a connection', () => {
    const untilMs = trial.deadlineMs;
    trial.tries(request());
    clock.advance(24);
    expect(trial.decide(100, untilMs, false)).toBe('wait');
    clock.advance(1);
    expect(trial.decide(100, untilMs, false)).toBe('dial');
  });

  it('opens none at the limit of connections: since the first trial may take forever, another request tries as well', () => {
    const untilMs = trial.deadlineMs;
    trial.tries(request());
    expect(trial.decide(100, untilMs, true)).toBe('wait');
    clock.advance(25);
    expect(trial.decide(4, untilMs, true)).toBe('wait');
    expect(trial.decide(5, untilMs, true)).toBe('use');
    expect(trial.mayTry(untilMs, true)).toBe(true);
  });

  it('is checked again every 5 ms, which keeps the process alive', () => {
    let looks = 0;
    const again = (): void => {
      if (++looks < 3) trial.wait(again);
    };
    trial.wait(again);
    expect(clock.referencedTimers).toBe(1);
    clock.advance(5);
    expect(looks).toBe(1);
    clock.advance(10);
    expect([looks, clock.timers]).toEqual([3, 0]);
  });
});

describe('a pod that keeps its connections', () => {
  it('has them reused at once, until a request on one is lost', () => {
    const first = request();
    trial.tries(first);
    trial.passed();
    first.emit('close');
    expect([trial.isPassed, now(0)]).toEqual([true, 'use']);
    trial.ended(1);
    expect(trial.isPassed).toBe(true);
    trial.lost();
    expect([trial.isPassed, now(0), now(5)]).toEqual([false, 'wait', 'use']);
  });
});

describe('a pod that hangs up after its responses', () => {
  it('gets a new connection for each request, or one that was idle for 100 ms', () => {
    trial.ended(3);
    expect([now(99), now(100), now(99, true)]).toEqual(['dial', 'use', 'dial']);
  });

  it('gets connections idle for twice as long after each loss, up to 1 s', () => {
    trial.lost();
    const enough: number[] = [];
    for (let losses = 0; losses < 6; losses++) {
      enough.push([100, 200, 400, 800, 1_000].find((idleMs) => trial.hasRested(idleMs)) as number);
      trial.lost();
    }
    expect(enough).toEqual([100, 200, 400, 800, 1_000, 1_000]);
  });

  it('is not one that closed a connection at an idle timeout', () => {
    trial.ended(25);
    expect(now(5)).toBe('use');
    trial.ended(24.9);
    expect(now(5)).toBe('dial');
  });

  it('counts as one that keeps them once a response came over a reused one', () => {
    trial.lost();
    trial.passed();
    expect(now(0)).toBe('use');
  });

  it('makes no request wait for the first trial', () => {
    trial.tries(request());
    trial.ended(1);
    expect(now(1_000)).toBe('use');
    expect(now(0)).toBe('dial');
  });
});
