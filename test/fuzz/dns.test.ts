import { isIP } from 'node:net';
import { describe, it } from 'vitest';
import { classifyAddress } from '../../src/endpoint/unsafe-address.js';
import { dns } from '../../src/resolver/dns.js';
import type { DnsClient } from '../../src/resolver/dns-client.js';
import { drawIndex, type Rng } from '../../src/runtime/rng.js';
import { FakeClock, settle } from '../../src/testing/fake-clock.js';
import { dnsError } from '../support/fixtures/fake-dns-client.js';
import { RecordingListener } from '../support/fixtures/recording-listener.js';
import { anything, eachCase, enough, LIMIT_MS, oddAddresses, oddNumbers, oneOf } from './cases.js';

const orders = 'orders.shop.svc.cluster.local';
const codes = ['ENOTFOUND', 'ENODATA', 'ESERVFAIL', 'EREFUSED', 'ETIMEOUT', 'EBADRESP', 'EFORMERR', 'ECANCELLED', ''];

/** A name server that answers anything; the first answer is a good one. */
class OddClient implements DnsClient {
  /** Whether it ever said "no such records", in whatever way. */
  saidNone = false;
  asked = 0;
  readonly #rng: Rng;
  #good = true;

  constructor(rng: Rng) {
    this.#rng = rng;
  }

  goOdd(): void {
    this.#good = false;
  }

  async resolve4(): Promise<never> {
    return this.#answer({ address: '10.1.0.1', ttl: 5 }, () => ({ address: this.#address(), ttl: this.#number() }));
  }

  async resolve6(): Promise<never> {
    return this.#answer({ address: 'fd00::1', ttl: 5 }, () => ({ address: this.#address(), ttl: this.#number() }));
  }

  async resolveSrv(): Promise<never> {
    return this.#answer({ name: `a.${orders}`, port: 8080, priority: 0, weight: 1 }, () => ({
      name: oneOf(this.#rng, [`a.${orders}`, orders, 'elsewhere.example', '.', '', 'x'.repeat(300), '127.0.0.1']),
      port: this.#number(),
      priority: this.#number(),
      weight: this.#number(),
    }));
  }

  cancel(): void {}

  #address(): string {
    return this.#rng.next() < 0.4 ? `10.0.0.${1 + drawIndex(this.#rng, 9)}` : oneOf(this.#rng, oddAddresses);
  }

  #number(): number {
    return this.#rng.next() < 0.6 ? drawIndex(this.#rng, 100) : oneOf(this.#rng, oddNumbers);
  }

  #answer(good: object, odd: () => object): never {
    this.asked++;
    const rng = this.#rng;
    if (this.#good) return [good] as never;
    if (rng.next() < 0.3) {
      const code = oneOf(rng, codes);
      if (code === 'ENOTFOUND' || code === 'ENODATA') this.saidNone = true;
      throw rng.next() < 0.9 ? dnsError(code) : anything(rng);
    }
    const records = Array.from({ length: drawIndex(rng, 5) }, odd);
    if (records.length === 0 || records.some((record) => ['', '.'].includes((record as { name?: string }).name ?? 'x')))
      this.saidNone = true;
    return records as never;
  }
}

describe('DNS answers', () => {
  it('lead only to addresses that a pod may have, and empty the set only if they say that there is nothing', {
    timeout: LIMIT_MS,
  }, async () => {
    let updates = 0;
    let failures = 0;
    await eachCase(async (rng) => {
      const clock = new FakeClock(0);
      const listener = new RecordingListener();
      const client = new OddClient(rng);
      const options = rng.next() < 0.5 ? { port: 8080 } : { srv: 'http' };
      const resolution = dns({ host: orders, ...options, client: () => client } as never).watch(listener, {
        clock,
        rng,
        observer: {},
      });
      // Questions that follow from answers settle one after the other.
      await settle();
      await settle();
      client.goOdd();
      for (let round = 0; round < 3; round++) {
        const nextMs = clock.nextInMs;
        if (nextMs === undefined || !Number.isFinite(nextMs) || nextMs > 60_000)
          throw new Error(`the next look is due in ${nextMs}`);
        await clock.advanceAsync(nextMs);
        await settle();
      }
      for (const { address, port, weight } of listener.endpoints ?? []) {
        const fits =
          isIP(address) !== 0 &&
          classifyAddress(address) === undefined &&
          Number.isInteger(port) &&
          port >= 1 &&
          port <= 65_535 &&
          Number.isFinite(weight) &&
          weight > 0;
        if (!fits) throw new Error(`published ${address}:${port} weight ${weight}`);
      }
      if (listener.endpoints === undefined) throw new Error('the good answer was not published');
      if (listener.endpoints.length === 0 && !client.saidNone) throw new Error('emptied by bad answers');
      // One look asks at most for SRV, and for both families of each name in it.
      if (client.asked > 4 * 12) throw new Error(`${client.asked} questions`);
      updates += listener.events.length - listener.errors.length;
      failures += listener.errors.length;
      if (clock.timers > 5) throw new Error(`${clock.timers} timers`);
      resolution.close();
      await settle();
      if (clock.timers > 0) throw new Error('a timer is left after close');
    });
    enough(updates, 10_000);
    enough(failures, 1_000);
  });
});
