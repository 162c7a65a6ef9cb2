import { describe, expect, it } from 'vitest';
import { type ThreadChannel, ThreadPlace } from '../../../src/place/thread-place.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';

/** Channels that hear each other. */
class FakeProcess {
  readonly clock = new FakeClock();
  readonly #channels = new Set<ThreadChannel>();

  thread(number: number, service = 'orders.shop:8080') {
    const channel: ThreadChannel = {
      onmessage: null,
      postMessage: (data) => {
        for (const other of this.#channels) if (other !== channel) other.onmessage?.({ data } as never);
      },
      close: () => this.#channels.delete(channel),
    };
    this.#channels.add(channel);
    let changes = 0;
    const place = new ThreadPlace(service, number, this.clock, channel, () => changes++);
    return {
      place,
      /** Ends as threads do: without a word. */
      die: () => {
        this.#channels.delete(channel);
        channel.postMessage = () => {};
        channel.onmessage = null;
      },
      say: (data: unknown) => channel.postMessage(data),
      get changes() {
        return changes;
      },
    };
  }
}

const placesOf = (threads: readonly { readonly place: ThreadPlace }[]): string[] =>
  threads.map(({ place: { place } }) => (place === undefined ? 'none' : `${place.index}/${place.count}`));

describe('the places of the threads of a process', () => {
  it('are a single one for a main thread alone, at once and without a remaining timer', () => {
    const process = new FakeProcess();
    const main = process.thread(0);
    expect(placesOf([main])).toEqual(['0/1']);
    process.clock.advance(60_000);
    expect(placesOf([main])).toEqual(['0/1']);
    expect(main.changes).toBe(0);
    expect(process.clock.timers).toBe(0);
  });

  it('are known for threads that start together after a second', () => {
    const process = new FakeProcess();
    const threads = [3, 1, 7].map((number) => process.thread(number));
    expect(placesOf(threads)).toEqual(['none', 'none', 'none']);
    process.clock.advance(1_000);
    expect(placesOf(threads)).toEqual(['1/3', '0/3', '2/3']);
    process.clock.advance(60_000);
    expect(threads.map(({ changes }) => changes)).toEqual([1, 1, 1]);
  });

  it('are recomputed some time after a thread starts, ends, or dies without a message', () => {
    const process = new FakeProcess();
    const threads = [1, 2, 3].map((number) => process.thread(number));
    process.clock.advance(1_000);
    const late = process.thread(4);
    process.clock.advance(2_000);
    expect(placesOf([...threads, late])).toEqual(['0/3', '1/3', '2/3', '3/4']);
    process.clock.advance(10_000);
    expect(placesOf([...threads, late])).toEqual(['0/4', '1/4', '2/4', '3/4']);
    threads[0]?.place.close();
    process.clock.advance(10_000);
    expect(placesOf([threads[1], threads[2], late] as never)).toEqual(['0/3', '1/3', '2/3']);
    threads[1]?.die();
    process.clock.advance(30_000);
    expect(placesOf([threads[2], late] as never)).toEqual(['0/2', '1/2']);
  });

  it('exclude threads that call other Services, and ignore foreign messages', () => {
    const process = new FakeProcess();
    const threads = [1, 2].map((number) => process.thread(number));
    const other = process.thread(3, 'users.shop:8080');
    for (const data of [
      null,
      'text',
      {},
      { service: 'orders.shop:8080' },
      { service: 'orders.shop:8080', thread: 'x' },
    ])
      other.say(data);
    process.clock.advance(20_000);
    expect(placesOf([...threads, other])).toEqual(['0/2', '1/2', '0/1']);
  });
});
