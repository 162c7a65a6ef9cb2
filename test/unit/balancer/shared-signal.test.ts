import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { BalancerFixture, failure } from '../../support/fixtures/balancer-fixture.js';

const CALLERS = 50;
const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

/** Each with a balancer that has heard of no endpoint. */
const waits: Readonly<Record<string, (fixture: BalancerFixture, signal: AbortSignal) => Promise<unknown>>> = {
  acquire: ({ balancer }, signal) => balancer.acquire({ signal }),
  run: ({ balancer }, signal) => balancer.run(() => 'done', { signal }),
  'run with a deadline': ({ balancer }, signal) => balancer.run(() => 'done', { signal, deadlineMs: 60_000 }),
  ready: ({ balancer }, signal) => balancer.ready({ signal }),
};

describe('a signal that many callers share', () => {
  for (const [name, wait] of Object.entries(waits)) {
    it(`has one listener while they wait (${name}), ends all of them, and none stays`, async () => {
      const fixture = new BalancerFixture();
      const controller = new AbortController();
      const { signal } = controller;
      const waiting = Array.from({ length: CALLERS }, () => failure(wait(fixture, signal)));
      await settle();
      expect(listeners(signal)).toBe(1);
      const reason = new Error('shutting down');
      controller.abort(reason);
      expect(new Set(await Promise.all(waiting))).toEqual(new Set([reason]));
      expect(listeners(signal)).toBe(0);
      expect(fixture.clock.timers).toBe(0);
      await fixture.balancer.close();
    });

    it(`has no listener left when all were served (${name})`, async () => {
      const fixture = new BalancerFixture();
      const { signal } = new AbortController();
      const waiting = Array.from({ length: CALLERS }, () => wait(fixture, signal));
      await fixture.publish('10.0.0.1');
      await fixture.clock.advanceAsync(1_000);
      for (const served of await Promise.all(waiting)) {
        if (typeof served === 'object') (served as { end(outcome: unknown): void }).end(outcomes.success);
      }
      expect(listeners(signal)).toBe(0);
      await fixture.balancer.close();
    });
  }

  it('has one listener across several balancers, and closing one leaves the others alone', async () => {
    const fixtures = [new BalancerFixture(), new BalancerFixture()] as const;
    const controller = new AbortController();
    const { signal } = controller;
    const waiting = fixtures.map(({ balancer }) => failure(balancer.acquire({ signal })));
    await settle();
    expect(listeners(signal)).toBe(1);
    await fixtures[0].balancer.close();
    expect(await waiting[0]).toMatchObject({ code: 'EVENKEEL_CLOSED' });
    expect(listeners(signal)).toBe(1);
    controller.abort(new Error('over'));
    expect(await waiting[1]).toMatchObject({ message: 'over' });
    await fixtures[1].balancer.close();
  });

  it('cuts every balancer that closes with it', async () => {
    const fixtures = Array.from({ length: 12 }, () => new BalancerFixture());
    for (const fixture of fixtures) {
      await fixture.publish('10.0.0.1');
      expect(fixture.balancer.pick()).toBeDefined();
    }
    const controller = new AbortController();
    const closing = fixtures.map(({ balancer }) => balancer.close({ signal: controller.signal }));
    expect(listeners(controller.signal)).toBe(1);
    controller.abort();
    await Promise.all(closing);
    expect(listeners(controller.signal)).toBe(0);
  });
});
