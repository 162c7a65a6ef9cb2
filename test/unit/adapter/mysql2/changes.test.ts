import { describe, expect, it } from 'vitest';
import { Changes } from '../../../../src/adapter/mysql2/changes.js';

describe('callers that wait for a change', () => {
  it('are all notified of the next change, once', async () => {
    const changes = new Changes();
    const told: string[] = [];
    const waiting = ['a', 'b'].map((name) => changes.next().then(() => told.push(name)));
    changes.happened();
    await Promise.all(waiting);
    changes.happened();
    expect(told).toEqual(['a', 'b']);
  });

  it('give up with the reason of their signal, before or while they wait', async () => {
    const changes = new Changes();
    const stopped = new AbortController();
    const waiting = changes.next(stopped.signal);
    stopped.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    await expect(changes.next(stopped.signal)).rejects.toThrow('enough');
  });

  it('leave nothing on the signal of a wait that is over', async () => {
    const changes = new Changes();
    const { signal } = new AbortController();
    let listeners = 0;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...given: Parameters<typeof add>) => {
      listeners++;
      add(...given);
    };
    signal.removeEventListener = (...given: Parameters<typeof remove>) => {
      listeners--;
      remove(...given);
    };
    const waiting = changes.next(signal);
    expect(listeners).toBe(1);
    changes.happened();
    await waiting;
    expect(listeners).toBe(0);
  });
});
