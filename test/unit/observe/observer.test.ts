import diagnostics from 'node:diagnostics_channel';
import { afterEach, describe, expect, it } from 'vitest';
import {
  combineObservers,
  notify,
  type Observer,
  observerEventNames,
  observes,
  withDiagnostics,
} from '../../../src/observe/observer.js';
import { Warnings } from '../../../src/observe/warnings.js';
import { FakeClock, settle } from '../../../src/testing/fake-clock.js';

const warning = { message: 'odd' };
const subscribed: [string, (message: unknown) => void][] = [];

function subscribe(event: string): unknown[] {
  const heard: unknown[] = [];
  const listener = (message: unknown): void => {
    heard.push(message);
  };
  diagnostics.subscribe(`evenkeel:${event}`, listener);
  subscribed.push([`evenkeel:${event}`, listener]);
  return heard;
}

afterEach(() => {
  for (const [name, listener] of subscribed.splice(0)) diagnostics.unsubscribe(name, listener);
});

describe('notifying an observer', () => {
  it('ignores an error that a hook throws', () => {
    const observer: Observer = {
      warned: () => {
        throw new Error('mine');
      },
    };
    notify(observer, 'warned', warning);
  });

  it('ignores a rejection of an async hook, which would end the process', async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown): void => {
      unhandled.push(reason);
    };
    process.on('unhandledRejection', note);
    const observer: Observer = {
      warned: async () => {
        throw new Error('mine');
      },
    };
    notify(observer, 'warned', warning);
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', note);
    expect(unhandled).toEqual([]);
  });

  it('calls hooks as methods of their observer, also those of a class', () => {
    class Counting implements Observer {
      count = 0;
      warned(): void {
        this.count++;
      }
    }
    const observer = new Counting();
    notify(observer, 'warned', warning);
    notify(combineObservers([observer, {}]), 'warned', warning);
    notify(withDiagnostics(observer, 'x'), 'warned', warning);
    expect(observer.count).toBe(3);
    expect(observes(observer, 'warned')).toBe(true);
    expect(observes(observer, 'refused')).toBe(false);
  });
});

describe('several observers', () => {
  it('are each notified of what they listen to, even if one throws', () => {
    const heard: string[] = [];
    const combined = combineObservers([
      {
        warned: () => {
          throw new Error('mine');
        },
      },
      { warned: () => heard.push('second') },
      { refused: () => heard.push('refused') },
    ]);
    notify(combined, 'warned', warning);
    expect(heard).toEqual(['second']);
    expect(observes(combined, 'refused')).toBe(true);
    expect(observes(combined, 'resolved')).toBe(false);
  });

  it('may be none', () => {
    expect(observes(combineObservers([]), 'warned')).toBe(false);
  });
});

describe('the bridge to node:diagnostics_channel', () => {
  it('publishes every event with the name of the resolver, beside the observer', () => {
    const hooked: string[] = [];
    const all = Object.fromEntries(observerEventNames.map((event) => [event, () => hooked.push(event)])) as Observer;
    const bridged = withDiagnostics(all, 'static x');
    const heard = observerEventNames.map((event) => subscribe(event));
    for (const event of observerEventNames) notify(bridged, event, { marker: event } as never);
    expect(hooked).toEqual(observerEventNames);
    expect(heard).toEqual(observerEventNames.map((marker) => [{ marker, resolver: 'static x' }]));
  });

  it('does not exist while nobody listens, and does as soon as somebody subscribes', () => {
    const bridged = withDiagnostics({}, 'x');
    expect(observes(bridged, 'attemptEnded')).toBe(false);
    const heard = subscribe('attemptEnded');
    expect(observes(bridged, 'attemptEnded')).toBe(true);
    notify(bridged, 'attemptEnded', { attempt: 1 } as never);
    expect(heard).toHaveLength(1);
    expect(observes(bridged, 'warned')).toBe(false);
  });

  it('uses a hook that is set later', () => {
    const observer: { warned?: () => void } = {};
    const bridged = withDiagnostics(observer, 'x');
    let heard = 0;
    observer.warned = () => heard++;
    notify(bridged, 'warned', warning);
    expect(heard).toBe(1);
  });
});

describe('warnings', () => {
  it('of one kind are reported once a minute', async () => {
    const clock = new FakeClock();
    const heard: string[] = [];
    const warnings = new Warnings({ warned: ({ message }) => heard.push(message) }, clock);
    for (let call = 0; call < 1_000; call++) warnings.warn('the picker threw', new Error('x'));
    warnings.warn('a load threw', new Error('x'));
    expect(heard).toEqual(['the picker threw', 'a load threw']);
    await clock.advanceAsync(60_000);
    warnings.warn('the picker threw', new Error('x'));
    expect(heard).toHaveLength(3);
    await settle();
  });
});
