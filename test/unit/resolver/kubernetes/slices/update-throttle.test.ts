import { describe, expect, it } from 'vitest';
import type { Unchecked } from '../../../../../src/resolver/kubernetes/api/unchecked.js';
import { type EndpointSlice, parseSlice } from '../../../../../src/resolver/kubernetes/slices/endpoint-slice.js';
import { PublishedSet } from '../../../../../src/resolver/kubernetes/slices/published-set.js';
import { FakeClock } from '../../../../../src/testing/fake-clock.js';

type State = 'R' | 'N' | 'T';

/** A union and its publication, fed with whole slices such as `1R 2N`. */
class Stage {
  readonly clock = new FakeClock();
  /** What was published, as `1R 2N`, with the time. */
  readonly published: string[] = [];
  readonly set: PublishedSet;
  #version = 0;

  constructor(first: string) {
    this.set = new PublishedSet(this.clock, (endpoints) => {
      const text = endpoints.map(({ address, conditions: { ready, terminating } }) => {
        const state: State = ready ? 'R' : terminating ? 'T' : 'N';
        return `${address.slice(address.lastIndexOf('.') + 1)}${state}`;
      });
      this.published.push(text.join(' '));
    });
    this.set.choose({ families: ['IPv4'], ports: () => [{ port: 80 }], accepts: () => true });
    this.put(first);
    this.clock.advance(1_000);
  }

  put(text: string, name = 's1'): void {
    this.#version += 1;
    const endpoints = text
      .split(' ')
      .filter(Boolean)
      .map((item) => {
        const state = item.slice(-1) as State;
        const [host, uid] = item.slice(0, -1).split('#') as [string, string?];
        return {
          addresses: [`10.0.0.${host}`],
          conditions: { ready: state === 'R', serving: state !== 'N', terminating: state === 'T' },
          ...(uid === undefined ? {} : { targetRef: { uid } }),
        };
      });
    const metadata = {
      name,
      resourceVersion: String(this.#version),
      labels: { 'kubernetes.io/service-name': 'orders' },
    };
    const slice = parseSlice({ metadata, addressType: 'IPv4', endpoints } as Unchecked, 'orders') as EndpointSlice;
    this.set.put(name, slice);
    this.set.settle();
  }

  /** Deletes a slice, as happens to all of them when their Service is deleted. */
  remove(name = 's1'): void {
    this.set.put(name, undefined);
    this.set.settle();
  }

  get last(): string | undefined {
    return this.published.at(-1);
  }
}

describe('W6 publication', () => {
  it('publishes the first set at once, even an empty one', () => {
    expect(new Stage('1R').published).toEqual(['1R']);
    expect(new Stage('').published).toEqual(['']);
  });

  it('publishes the first change after a calm period in the same turn, then at least 50 ms apart', () => {
    const stage = new Stage('1R');
    stage.put('1R 2R');
    expect(stage.last).toBe('1R 2R');
    stage.put('1R 2R 3R');
    stage.clock.advance(49);
    stage.put('1R 2R 3R 4R');
    expect(stage.last).toBe('1R 2R');
    stage.clock.advance(1);
    expect(stage.last).toBe('1R 2R 3R 4R');
    expect(stage.published).toHaveLength(3);
    expect(stage.clock.timers).toBe(0);
  });

  it('removes an endpoint that stops being ready in the same turn, even in a storm of events', () => {
    const stage = new Stage('1R 2R');
    stage.put('1R 2R 3R');
    stage.put('1R 2N 3R');
    expect(stage.last).toBe('1R 2N 3R');
    stage.put('1T 2N 3R');
    expect(stage.last).toBe('1T 2N 3R');
    stage.put('1N 2N 3R');
    expect(stage.last).toBe('1N 2N 3R');
  });

  it('removes an endpoint whose address another pod took over in the same turn', () => {
    const stage = new Stage('1#aR');
    stage.put('1#aR 2R');
    stage.put('1#bR 2R');
    expect(stage.published).toHaveLength(3);
  });

  it('delays endpoints that become ready', () => {
    const stage = new Stage('1R 2N');
    stage.put('1R 2N 3R');
    stage.put('1R 2R 3R');
    expect(stage.last).toBe('1R 2N 3R');
    stage.clock.advance(50);
    expect(stage.last).toBe('1R 2R 3R');
  });

  it('limits readiness that flaps 1,000 times a second to 20 delayed publications and 20 immediate ones a second', () => {
    const stage = new Stage('1R 2R');
    stage.clock.advance(60_000);
    const before = stage.published.length;
    for (let change = 0; change < 10_000; change++) {
      stage.put(change % 2 === 0 ? '1R 2N' : '1R 2R');
      stage.clock.advance(1);
    }
    expect(stage.published.length - before).toBeLessThanOrEqual(20 + 10 * 40);
  });

  it('harmless changes that are due use up nothing of what lets an unready endpoint leave at once', () => {
    const hosts = Array.from({ length: 40 }, (_, host) => host + 10);
    let unready = 0;
    const text = (): string => hosts.map((host, at) => `${host}${at < unready ? 'N' : 'R'}`).join(' ');
    const stage = new Stage(text());
    const loseTwenty = (): void => {
      for (let one = 0; one < 20; one++) {
        unready += 1;
        stage.put(text());
        expect(stage.last?.match(/N/g)).toHaveLength(unready);
      }
    };
    stage.put(`${text()} 99R`);
    loseTwenty();
    for (let change = 0; change < 25; change++) {
      stage.clock.advance(50);
      stage.put(`${text()} ${100 + change}R`);
    }
    loseTwenty();
  });

  it('S9: keeps an endpoint that vanished for 250 ms', () => {
    const stage = new Stage('1R 2R');
    stage.put('2R');
    stage.clock.advance(249);
    expect(stage.published).toEqual(['1R 2R']);
    stage.clock.advance(1);
    expect(stage.last).toBe('2R');
    expect(stage.clock.timers).toBe(0);
  });

  it('S9: publishes nothing if it is back within 250 ms, in whatever slice', () => {
    const stage = new Stage('1R 2R');
    stage.put('2R');
    stage.clock.advance(20);
    stage.put('1R', 's2');
    stage.clock.advance(10_000);
    expect(stage.published).toEqual(['1R 2R']);
  });

  it('keeps the endpoints of a Service that was deleted for 30 s, for it may be created again', () => {
    const stage = new Stage('1R 2N 3T');
    stage.remove();
    expect(stage.last).toBe('1R');
    stage.clock.advance(29_999);
    expect(stage.last).toBe('1R');
    stage.clock.advance(1);
    expect(stage.last).toBe('');
    expect(stage.clock.timers).toBe(0);
  });

  it('keeps those of all its slices, however they are deleted one after another', () => {
    const stage = new Stage('1R 2R');
    stage.put('3R', 's2');
    stage.clock.advance(100);
    stage.remove('s2');
    stage.clock.advance(100);
    stage.remove();
    stage.clock.advance(29_899);
    expect(stage.last).toBe('1R 2R 3R');
    stage.clock.advance(1);
    expect(stage.last).toBe('1R 2R');
    stage.clock.advance(100);
    expect(stage.last).toBe('');
  });

  it('publishes nothing if a Service that was deleted is back within 30 s', () => {
    const stage = new Stage('1R 2R');
    stage.remove();
    stage.clock.advance(29_900);
    stage.put('2R 1R', 's2');
    stage.clock.advance(60_000);
    expect(stage.published).toEqual(['1R 2R']);
  });

  it('has the pods of the new Service alone as soon as that lists any', () => {
    const stage = new Stage('1R 2R');
    stage.remove();
    stage.clock.advance(5_000);
    stage.put('2R 8R', 's2');
    expect(stage.last).toBe('2R 8R');
    expect(stage.clock.timers).toBe(0);
  });

  it('keeps nothing of a deleted Service once a connection fails: another pod may have the address', () => {
    const stage = new Stage('1R 2R');
    stage.remove();
    stage.clock.advance(5_000);
    stage.set.dropVanished();
    expect(stage.last).toBe('');
    expect(stage.clock.timers).toBe(0);
  });

  it('keeps endpoints for a second that all vanish from a slice that stays', () => {
    const stage = new Stage('1R 2N 3T');
    stage.put('');
    stage.clock.advance(999);
    expect(stage.last).toBe('1R');
    stage.clock.advance(1);
    expect(stage.last).toBe('');
  });

  it('keeps nothing of a deleted Service beyond a second if the new one is empty', () => {
    const stage = new Stage('1R 2R');
    stage.remove();
    stage.clock.advance(5_000);
    stage.put('', 's2');
    expect(stage.last).toBe('');
    expect(stage.clock.timers).toBe(0);
  });

  it('drops what vanished more than 250 ms ago as soon as other endpoints are listed', () => {
    const stage = new Stage('1R 2R');
    stage.remove();
    stage.clock.advance(400);
    stage.put('9N');
    expect(stage.last).toBe('9N');
  });

  it('gives each endpoint its own 250 ms', () => {
    const stage = new Stage('1R 2R 3R');
    stage.put('2R 3R');
    stage.clock.advance(100);
    stage.put('3R');
    stage.clock.advance(150);
    expect(stage.last).toBe('2R 3R');
    stage.clock.advance(100);
    expect(stage.last).toBe('3R');
  });

  it('starts the time again if an endpoint returns and vanishes again', () => {
    const stage = new Stage('1R 2R');
    stage.put('2R');
    stage.clock.advance(200);
    stage.put('1R 2R');
    stage.clock.advance(100);
    stage.put('2R');
    stage.clock.advance(249);
    expect(stage.published).toEqual(['1R 2R']);
    stage.clock.advance(1);
    expect(stage.last).toBe('2R');
  });

  it('does not keep an endpoint that was terminating or not ready: its pod is gone', () => {
    const stage = new Stage('1T 2N 3R');
    stage.put('3R');
    expect(stage.last).toBe('3R');
  });

  it('an endpoint that was terminating when it vanished does not stay, even if many changes had kept that from being published', () => {
    const hosts = Array.from({ length: 40 }, (_, host) => host + 10);
    const text = (unready: number): string => hosts.map((host, at) => `${host}${at < unready ? 'N' : 'R'}`).join(' ');
    const stage = new Stage(`1R ${text(0)}`);
    for (let unready = 1; unready <= hosts.length; unready++) stage.put(`1R ${text(unready)}`);
    stage.put(`1T ${text(hosts.length)}`);
    expect(stage.last).toMatch(/\b1R\b/);
    stage.put(text(hosts.length));
    stage.clock.advance(50);
    expect(stage.last).not.toMatch(/\b1R\b/);
  });

  it('does not keep the old endpoint of an address that another pod took over', () => {
    const stage = new Stage('1#aR 2R');
    stage.put('1#bR 2R');
    expect(stage.published).toHaveLength(2);
    expect(stage.last).toBe('1R 2R');
  });

  it('does not keep an endpoint whose connection failed', () => {
    const stage = new Stage('1R 2R');
    stage.put('2R');
    stage.set.dropVanished();
    expect(stage.last).toBe('2R');
    expect(stage.clock.timers).toBe(0);
  });

  it('publishes a kept endpoint along with other changes', () => {
    const stage = new Stage('2R 3R');
    stage.put('3R');
    stage.put('1R', 's2');
    expect(stage.last).toBe('1R 2R 3R');
  });

  it('ignores a change that is reverted before it is published', () => {
    const stage = new Stage('1R');
    stage.put('1R 2R');
    stage.put('1R 2R 3R');
    stage.put('1R 2R');
    stage.clock.advance(1_000);
    expect(stage.published).toEqual(['1R', '1R 2R']);
  });

  it('leaves no timer and publishes nothing more after close', () => {
    const stage = new Stage('1R 2R');
    stage.put('1R 2R 3R');
    stage.put('1R 2R 3R 4R');
    stage.put('2R 3R 4R');
    stage.set.close();
    expect(stage.clock.timers).toBe(0);
    stage.put('9R');
    stage.clock.advance(1_000);
    expect(stage.last).toBe('1R 2R 3R');
  });
});
