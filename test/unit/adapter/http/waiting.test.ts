import { describe, expect, it } from 'vitest';
import { closeWhenServed, WaitingRequests } from '../../../../src/adapter/http/waiting.js';
import type { Balancer } from '../../../../src/balancer/balancer.js';
import { FakeClock, settle } from '../../../../src/testing/fake-clock.js';

/** What the balancer of an entry point is told. */
class Closing {
  readonly clock: FakeClock = new FakeClock();
  readonly waiting: WaitingRequests = new WaitingRequests();
  readonly told: string[] = [];
  /** Whether requests run that do not end by themselves. */
  areRunning = false;

  close(drainTimeoutMs = 1_000): Promise<void> {
    const balancer = {
      close: async ({ signal }: { readonly signal?: AbortSignal } = {}) => {
        this.told.push(signal?.aborted ? 'cut' : 'close');
        await new Promise<void>((resolve) => {
          signal?.addEventListener('abort', () => resolve(void this.told.push('cut later')));
          if (signal?.aborted || !this.areRunning) resolve();
        });
      },
    } as Balancer<unknown>;
    return closeWhenServed({ balancer, waiting: this.waiting, clock: this.clock, drainTimeoutMs });
  }
}

describe('closing a balancer while requests wait for a pod', () => {
  it('happens at once when none waits, and leaves no timer', async () => {
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

  it('cuts requests that still run when the time is over, although none waited', async () => {
    const closing = new Closing();
    closing.areRunning = true;
    const closed = closing.close();
    await closing.clock.advanceAsync(999);
    expect(closing.told).toEqual(['close']);
    await closing.clock.advanceAsync(1);
    await closed;
    expect(closing.told).toEqual(['close', 'cut later']);
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
