import { describe, expect, it } from 'vitest';
import type { Endpoint } from '../../../../../src/endpoint/endpoint.js';
import type { Unchecked } from '../../../../../src/resolver/kubernetes/api/unchecked.js';
import { type EndpointSlice, parseSlice } from '../../../../../src/resolver/kubernetes/slices/endpoint-slice.js';
import { PublishedSet } from '../../../../../src/resolver/kubernetes/slices/published-set.js';
import { drawIndex, type Rng } from '../../../../../src/runtime/rng.js';
import { FakeClock } from '../../../../../src/testing/fake-clock.js';
import { seededRng } from '../../../../../src/testing/seeded-rng.js';

interface PodState {
  ready: boolean;
  generation: number;
}

const SLICES = 50;
const MEMBERS = 100;
const SECONDS = 5;

/** A Service of 5,000 pods under 1,000 slice events a second. */
class Storm {
  readonly clock = new FakeClock();
  readonly pods: PodState[][] = Array.from({ length: SLICES }, () =>
    Array.from({ length: MEMBERS }, () => ({ ready: true, generation: 0 })),
  );
  /** When something was published, in ms. */
  published: number[] = [];
  last: readonly Endpoint[] = [];
  readonly set = new PublishedSet(this.clock, (endpoints) => {
    this.published.push(this.clock.now());
    this.last = endpoints;
  });
  #version = 0;

  constructor() {
    this.set.choose({ families: ['IPv4'], ports: () => [{ port: 80 }], accepts: () => true });
    for (let slice = 0; slice < SLICES; slice++) this.write(slice);
    this.clock.advance(10_000);
    this.published = [];
  }

  write(slice: number): void {
    this.set.put(`s${slice}`, this.#slice(slice));
    this.set.settle();
  }

  #slice(slice: number): EndpointSlice {
    this.#version += 1;
    const endpoints = (this.pods[slice] as PodState[]).map(({ ready, generation }, member) => ({
      addresses: [`10.${generation}.${slice}.${member}`],
      conditions: { ready, serving: ready },
    }));
    const metadata = {
      name: `s${slice}`,
      resourceVersion: String(this.#version),
      labels: { 'kubernetes.io/service-name': 'orders' },
    };
    return parseSlice({ metadata, addressType: 'IPv4', endpoints } as Unchecked, 'orders') as EndpointSlice;
  }

  run(change: (pod: PodState, rng: Rng) => void): void {
    const rng = seededRng(4);
    for (let event = 0; event < SECONDS * 1_000; event++) {
      const slice = drawIndex(rng, SLICES);
      change((this.pods[slice] as PodState[])[drawIndex(rng, MEMBERS)] as PodState, rng);
      this.write(slice);
      this.clock.advance(1);
    }
  }

  /** The most publications in any second. */
  get perSecond(): number {
    const counts = this.published.map(
      (start) => this.published.filter((at) => at >= start && at < start + 1_000).length,
    );
    return Math.max(...counts);
  }

  /** What is listed in the end. */
  get truth(): string {
    return this.pods
      .flatMap((pods, slice) =>
        pods.map(({ generation, ready }, member) => `10.${generation}.${slice}.${member}:80 ${ready}`),
      )
      .sort()
      .join('\n');
  }

  get belief(): string {
    return this.last
      .map(({ address, port, conditions }) => `${address}:${port} ${conditions.ready}`)
      .sort()
      .join('\n');
  }
}

describe('W6 1,000 slice events a second against 5,000 endpoints', { timeout: 60_000 }, () => {
  it('pods replaced and becoming ready: at most 20 publications a second, and the correct set at the end', () => {
    const storm = new Storm();
    storm.run((pod) => {
      pod.generation += 1;
    });
    expect(storm.perSecond).toBeLessThanOrEqual(20);
    storm.clock.advance(1_000);
    expect(storm.belief).toBe(storm.truth);
  });

  it('readiness flapping everywhere: at most 40 a second, since losses of readiness are published at once within limits', () => {
    const storm = new Storm();
    storm.run((pod) => {
      pod.ready = !pod.ready;
    });
    expect(storm.published.length).toBeLessThanOrEqual(20 + 40 * SECONDS);
    storm.clock.advance(1_000);
    expect(storm.belief).toBe(storm.truth);
  });

  it('in the middle of a storm one pod that stops being ready leaves in the same turn', () => {
    const storm = new Storm();
    storm.run((pod) => {
      pod.generation += 1;
    });
    const victim = (storm.pods[7] as PodState[])[7] as PodState;
    storm.write(3);
    victim.ready = false;
    storm.write(7);
    const found = storm.last.find(({ address }) => address === `10.${victim.generation}.7.7`);
    expect(found?.conditions.ready).toBe(false);
  });
});
