import { expect } from 'vitest';
import type { ResolveError } from '../../../../src/errors.js';
import type { EndpointSlice } from '../../../../src/resolver/kubernetes/slices/endpoint-slice.js';
import { ListWatch } from '../../../../src/resolver/kubernetes/watch/list-watch.js';
import type { Rng } from '../../../../src/runtime/rng.js';
import { FakeClock, settle } from '../../../../src/testing/fake-clock.js';
import { seededRng } from '../../../../src/testing/seeded-rng.js';
import { FakeApiClient, type PendingGet, wireList, wireSlice } from './fake-api-client.js';

/** The loop of lists and watches alone, with its answers given by hand. */
export class Loop {
  readonly clock: FakeClock;
  readonly client: FakeApiClient = new FakeApiClient();
  /** What was told, in order: `s1=10.0.0.1`, `-s1`, `list s1 s2`, `fail …`, `confirmed`, `warned …`. */
  readonly told: string[] = [];
  readonly errors: ResolveError[] = [];
  readonly listWatch: ListWatch;

  constructor(
    rng: Rng = seededRng(1),
    namespace: () => Promise<string> = async () => 'shop',
    clock: FakeClock = new FakeClock(),
    streamingLists = false,
  ) {
    this.clock = clock;
    const addresses = (slice: EndpointSlice): string => slice.members.map(({ address }) => address).join('+');
    this.listWatch = new ListWatch({
      client: this.client,
      namespace,
      service: 'orders',
      clock,
      rng,
      streamingLists,
      listener: {
        replaced: (slices) => this.told.push(['list', ...slices.map(({ name }) => name)].join(' ')),
        changed: (name, slice) => this.told.push(slice === undefined ? `-${name}` : `${name}=${addresses(slice)}`),
        failed: (error) => {
          this.errors.push(error);
          this.told.push(`fail ${error.code}`);
        },
        confirmed: () => {
          if (this.told.at(-1) !== 'confirmed') this.told.push('confirmed');
        },
        warned: (message) => this.told.push(`warned ${message}`),
      },
    });
    this.listWatch.start();
  }

  /** Answers the first list and opens the watch after it. */
  async begin(version = 10, addresses: readonly string[] = ['10.0.0.1']): Promise<PendingGet> {
    await settle();
    await this.list(version, addresses);
    return await this.openWatch();
  }

  async list(version: number, addresses: readonly string[] = ['10.0.0.1']): Promise<void> {
    expect(this.client.last.verb).toBe('list');
    await this.client.last.answer(200, wireList(version, [wireSlice('s1', version - 1, addresses)]));
  }

  async openWatch(): Promise<PendingGet> {
    const watch = this.client.last;
    expect(watch.verb).toBe('watch');
    await watch.open();
    return watch;
  }

  /** Lets the whole present pause pass; returns how long it was. */
  async nextPause(): Promise<number> {
    const before = this.client.all.length;
    const startMs = this.clock.now();
    while (this.client.all.length === before) {
      const next = this.clock.nextInMs;
      if (next === undefined) throw new Error('nothing to wait for');
      await this.clock.advanceAsync(next);
    }
    return this.clock.now() - startMs;
  }

  get requests(): string {
    return this.client.all.map(({ verb, version }) => `${verb} ${version}`).join(', ');
  }
}

/** The ends of chance. */
export const low: Rng = { next: () => 0 };
export const high: Rng = { next: () => 0.999999 };
