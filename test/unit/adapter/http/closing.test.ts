import { getEventListeners } from 'node:events';
import { expect, it } from 'vitest';
import { Closing } from '../../../../src/adapter/http/closing.js';

it('finishes once, cuts for whichever signal aborts, and listens to none afterwards', async () => {
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
