import { type DnsOptions, dns } from '../../src/resolver/dns.js';
import type { Resolution } from '../../src/resolver/resolver.js';
import { FakeClock } from '../../src/testing/fake-clock.js';
import type { DnsServer } from '../../src/testing/servers/dns-server.js';
import { RecordingListener } from './recording-listener.js';
import { until } from './until.js';

export const ordersName = 'orders.shop.svc.cluster.local';

/** Longer than any pause between lookups, so that the one timer shows whether a lookup is running. */
const DEADLINE_MS = 500_000;

/** A `dns()` watch with real queries and a test's clock. */
export class DnsWatch {
  readonly clock: FakeClock = new FakeClock(0);
  readonly listener: RecordingListener = new RecordingListener();
  readonly warnings: string[] = [];
  readonly #resolution: Resolution;

  constructor(server: DnsServer, options: Partial<DnsOptions> = {}) {
    const resolver = dns({
      host: ordersName,
      ...(options.srv === undefined && { port: 8080 }),
      servers: [server.address],
      timeoutMs: 1_000,
      tries: 1,
      deadlineMs: DEADLINE_MS,
      ...options,
    } as DnsOptions);
    this.#resolution = resolver.watch(this.listener, {
      clock: this.clock,
      rng: { next: () => 0 },
      observer: { warned: ({ message }) => this.warnings.push(message) },
    });
  }

  get events(): readonly string[] {
    return this.listener.events;
  }

  /** Resolves when no lookup is running. */
  looked(): Promise<void> {
    return until('the lookup to end', () => (this.clock.nextInMs ?? DEADLINE_MS) <= DEADLINE_MS / 2);
  }

  /** Advances time to the next lookup and waits for its end. */
  async next(): Promise<void> {
    await this.looked();
    this.clock.advance(this.clock.nextInMs ?? 0);
    await this.looked();
  }

  refresh(): void {
    this.#resolution.refresh();
  }

  close(): void {
    this.#resolution.close();
  }
}
