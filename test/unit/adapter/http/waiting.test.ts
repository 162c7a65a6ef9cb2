import { describe, expect, it } from 'vitest';
import { closeWhenServed, WaitingRequests } from '../../../../src/adapter/http/waiting.js';
import type { Balancer } from '../../../../src/balancer/balancer.js';
import { FakeClock, settle } from '../../../../src/testing/fake-clock.js';

/** What the balancer of an entry point is told. */
class Closing {
  readonly clock: FakeClock = new FakeClock();
  readonly waiting: WaitingRequests = new WaitingRequests();
  readonly told: string[] = [];

  close(drainTimeoutMs = 1_000): Promise<void> {
    const balancer = {
      close: async ({ signal }: { readonly signal?: AbortSignal } = {}) => {
        this.told.push(signal?.aborted ? 'cut' : 'close');
        signal?.addEventListener('abort', () => this.told.push('cut later'));
      },
    } as Balancer<unknown>;
    return closeWhenServed({ balancer, waiting: this.waiting, clock: this.clock, drainTimeoutMs });
  }
}

describe('closing a balancer while requests wait for a pod', () => {
  it('happens at once when none waits, and needs no timer', async () => {
    const closing = new Closing();
    const closed = closing.close();
    expect(closing.told).toEqual(['close']);
    await closed;
    expect(closing.clock.timers).toBe(0);
  });

  it('waits until the last of them is served', async () => {
    const closing = new Closing();
    closing.waiting.add();
    closing.waiting.add();
    const closed = closing.close();
    expect(closing.waiting.remove()).toBe(false);
    await settle();
    expect(closing.told).toEqual([]);
    expect(closing.waiting.remove()).toBe(true);
    await closed;
    expect(closing.told).toEqual(['close']);
    expect(closing.clock.timers).toBe(0);
  });

  it('cuts those that are left when its time is over', async () => {
    const closing = new Closing();
    closing.waiting.add();
    const closed = closing.close();
    await closing.clock.advanceAsync(999);
    expect(closing.told).toEqual([]);
    await closing.clock.advanceAsync(1);
    await closed;
    expect(closing.told).toEqual(['cut']);
  });

  it('waits without end where the drain timeout is Infinity', async () => {
    const closing = new Closing();
    closing.waiting.add();
    const closed = closing.close(Number.POSITIVE_INFINITY);
    await closing.clock.advanceAsync(3_600_000);
    expect(closing.told).toEqual([]);
    closing.waiting.remove();
    await closed;
    expect(closing.told).toEqual(['close']);
  });
});
