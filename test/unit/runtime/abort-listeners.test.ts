import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { offAbort, onAbort } from '../../../src/runtime/abort-listeners.js';

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

  it('are not called once they are taken back, by another listener either', () => {
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

  it('leave nothing on the signal, and can come again', () => {
    const { signal } = new AbortController();
    const listener = (): void => {};
    for (let i = 0; i < 3; i++) {
      onAbort(signal, listener);
      offAbort(signal, listener);
      offAbort(signal, listener);
      expect(listeners(signal)).toBe(0);
    }
  });

  it('may be on no signal at all', () => {
    onAbort(undefined, () => {});
    offAbort(undefined, () => {});
  });
});
