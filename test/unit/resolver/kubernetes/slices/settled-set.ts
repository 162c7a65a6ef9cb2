import { hostPort } from '../../../../../src/endpoint/address.js';
import type { Endpoint } from '../../../../../src/endpoint/endpoint.js';
import type { EndpointSlice } from '../../../../../src/resolver/kubernetes/slices/endpoint-slice.js';
import { PublishedSet, type SliceChoice } from '../../../../../src/resolver/kubernetes/slices/published-set.js';
import { FakeClock } from '../../../../../src/testing/fake-clock.js';

/** A set whose every change is published: enough time passes after each. Shows what it lists, by `address:port`. */
export class SettledSet {
  readonly #clock = new FakeClock();
  readonly #set: PublishedSet;
  #listed = new Map<string, Endpoint>();

  constructor(choice: SliceChoice) {
    this.#set = new PublishedSet(this.#clock, (endpoints) => {
      this.#listed = new Map(endpoints.map((endpoint) => [hostPort(endpoint.address, endpoint.port), endpoint]));
    });
    this.#set.choose(choice);
  }

  set(name: string, slice: EndpointSlice | undefined): void {
    this.#set.put(name, slice);
  }

  settle(touched: Set<string>): void {
    const before = this.#listed;
    this.#set.settle();
    this.#clock.advance(30_000);
    for (const at of new Set([...before.keys(), ...this.#listed.keys()])) {
      if (before.get(at) !== this.#listed.get(at)) touched.add(at);
    }
  }

  at(address: string): Endpoint | undefined {
    return this.#listed.get(address);
  }

  get addresses(): readonly string[] {
    return [...this.#listed.keys()];
  }
}
