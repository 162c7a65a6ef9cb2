import { FakeResolver } from 'evenkeel/testing';
import { describe, expect, it } from 'vitest';
import { createRSocket } from '../../../examples/rsocket/adapter/index.js';

function start() {
  const warnings: { readonly message: string; readonly error?: unknown }[] = [];
  const rsocket = createRSocket('orders.shop:7000', {
    resolver: new FakeResolver(),
    observer: { warned: (event) => warnings.push(event) },
  });
  return { rsocket, warnings };
}

describe('the callbacks of onClose', () => {
  it('are all called, although one throws, which is a warning', async () => {
    const { rsocket, warnings } = start();
    const ended: unknown[] = [];
    const bad = new Error('a mistake in the callback');
    const throwing = (): void => {
      throw bad;
    };
    rsocket.onClose(throwing);
    rsocket.onClose((error) => ended.push(error));
    const reason = new Error('enough');
    await rsocket.close(reason);
    expect(ended).toEqual([reason]);
    rsocket.onClose(throwing);
    await new Promise<void>((resolve) => rsocket.onClose(() => resolve()));
    expect(warnings).toEqual(Array(2).fill({ message: 'a callback of onClose threw', error: bad }));
  });

  it('get the error for which it was closed, also when added later', async () => {
    const { rsocket } = start();
    const reason = new Error('enough');
    await rsocket.close(reason);
    expect(await new Promise((resolve) => rsocket.onClose(resolve))).toBe(reason);
  });
});
