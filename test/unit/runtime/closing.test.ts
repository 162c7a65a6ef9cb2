import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { Closing } from '../../../src/runtime/closing.js';

it('finishes once, cuts when any of its signals aborts, and listens to none afterwards', async () => {
  const heard: string[] = [];
  let finished = (): void => {};
  const closing = new Closing(
    () => {
      heard.push('finish');
      return new Promise((resolve) => {
        finished = resolve;
      });
    },
    () => heard.push('cut'),
  );
  const [one, other] = [new AbortController(), new AbortController()];
  const closed = [closing.close(one.signal), closing.close(other.signal), closing.close(undefined)];
  expect(heard).toEqual(['finish']);
  other.abort();
  expect(heard).toEqual(['finish', 'cut']);
  finished();
  await Promise.all(closed);
  expect(getEventListeners(one.signal, 'abort')).toEqual([]);
  void closing.close(AbortSignal.abort());
  expect(heard).toEqual(['finish', 'cut', 'cut']);
});

it('may be called again by code that is notified of the end', async () => {
  const heard: string[] = [];
  let again: Promise<void> | undefined;
  const closing: Closing = new Closing(
    async () => {
      heard.push('finish');
      expect(closing.hasBegun).toBe(true);
      again = closing.close(undefined);
    },
    () => heard.push('cut'),
  );
  expect(closing.hasBegun).toBe(false);
  const closed = closing.close(undefined);
  expect(again).toBe(closed);
  await closed;
  expect(heard).toEqual(['finish']);
});
