import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { offAbort, onAbort, orAborted } from '../../../src/runtime/abort-listeners.js';

const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

describe('listeners on a shared signal', () => {
  it('are called once, in the order they came', () => {
    const controller = new AbortController();
    const called: number[] = [];
    for (let i = 0; i < 20; i++) onAbort(controller.signal, () => called.push(i));
    expect(listeners(controller.signal)).toBe(1);
    controller.abort();
    controller.abort();
    expect(called).toEqual(Array.from({ length: 20 }, (_, i) => i));
  });

  it('are not called once they are removed, also by another listener', () => {
    const controller = new AbortController();
    const called: string[] = [];
    const second = (): void => void called.push('second');
    const third = (): void => void called.push('third');
    onAbort(controller.signal, () => {
      called.push('first');
      offAbort(controller.signal, second);
    });
    onAbort(controller.signal, second);
    onAbort(controller.signal, third);
    offAbort(controller.signal, third);
    controller.abort();
    expect(called).toEqual(['first']);
  });

  it('leave nothing on the signal, and can be added again', () => {
    const { signal } = new AbortController();
    const listener = (): void => {};
    for (let i = 0; i < 3; i++) {
      onAbort(signal, listener);
      offAbort(signal, listener);
      offAbort(signal, listener);
      expect(listeners(signal)).toBe(0);
    }
  });

  it('may be added without a signal', () => {
    onAbort(undefined, () => {});
    offAbort(undefined, () => {});
  });
});

describe('work that a signal may abort', () => {
  it('keeps its own result if that comes first, and leaves nothing on the signal', async () => {
    const { signal } = new AbortController();
    expect(await orAborted(Promise.resolve('done'), signal)).toBe('done');
    await expect(orAborted(Promise.reject(new Error('failed')), signal)).rejects.toThrow('failed');
    expect(await orAborted('at once', undefined)).toBe('at once');
    expect(listeners(signal)).toBe(0);
  });

  it('rejects with the reason when the signal aborts, whatever its result later', async () => {
    const controller = new AbortController();
    let fail: (error: Error) => void = () => {};
    const work = new Promise<never>((_, reject) => {
      fail = reject;
    });
    const waited = orAborted(work, controller.signal);
    const reason = new Error('called off');
    controller.abort(reason);
    await expect(waited).rejects.toBe(reason);
    // Nobody is left to hear of it: as an unhandled rejection it would fail this test run.
    fail(new Error('too late'));
    await expect(orAborted(new Promise(() => {}), controller.signal)).rejects.toBe(reason);
  });
});
