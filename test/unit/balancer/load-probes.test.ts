import { afterEach, describe, expect, it } from 'vitest';
import { type Balancer, createBalancer } from '../../../src/balancer/balancer.js';
import type { BalancerOptions } from '../../../src/balancer/balancer-options.js';
import { type LoadReport, outcomes } from '../../../src/endpoint/outcome.js';
import { inFlight } from '../../../src/load/in-flight.js';
import { hash } from '../../../src/picker/hash.js';
import { roundRobin } from '../../../src/picker/round-robin.js';
import type { Connection } from '../../../src/pool/transport.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../src/testing/fake-resolver.js';
import { type FakeConnection, FakeTransport } from '../../../src/testing/fake-transport.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';

type Answer = LoadReport | 'busy' | undefined;
type Asked = { readonly address: string; readonly signal: AbortSignal };

const counting = (count: number): LoadReport => ({ namedMetrics: { evenkeel_in_flight: count } });

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

interface Fixture {
  readonly balancer: Balancer<FakeConnection>;
  readonly clock: FakeClock;
  readonly transport: FakeTransport;
  /** Who was asked, in order. */
  readonly asked: Asked[];
  /** A call to some endpoint, whose answer carries this report. */
  call(report?: LoadReport): string;
  /** Every endpoint says that it has five requests in flight, and then that is old. */
  hearAll(report?: LoadReport): void;
}

async function fixture(
  answer: (asked: Asked) => Promise<Answer> | Answer,
  options: Partial<BalancerOptions<FakeConnection>> = {},
  count = 4,
): Promise<Fixture> {
  const clock = new FakeClock();
  const resolver = new FakeResolver();
  const transport = new FakeTransport();
  const asked: Asked[] = [];
  const balancer = createBalancer<FakeConnection>({
    resolver,
    transport: {
      connect: async (endpoint, signal): Promise<Connection<FakeConnection>> =>
        Object.assign(await transport.connect(endpoint, signal), {
          askForReport: async (stop: AbortSignal) => {
            const entry = { address: endpoint.address, signal: stop };
            asked.push(entry);
            return answer(entry);
          },
        }),
    },
    clock,
    rng: seededRng(1),
    ...options,
  });
  closing.push(() => balancer.close({ signal: AbortSignal.abort() }));
  resolver.update(...Array.from({ length: count }, (_, index) => ({ address: `10.0.0.${index}`, port: 80 })));
  await clock.advanceAsync(100);
  const call = (report?: LoadReport): string => {
    const lease = balancer.pick();
    if (lease === undefined) throw new Error('nothing to pick');
    if (report !== undefined) lease.reported(report);
    lease.end(outcomes.success);
    return lease.endpoint.address;
  };
  return {
    balancer,
    clock,
    transport,
    asked,
    call,
    hearAll(report) {
      // They run at the same time: else one that was heard of would get them all.
      const own = new Map<string, number>();
      const leases = Array.from({ length: 20 * count }, () => {
        const lease = balancer.pick();
        if (lease === undefined) throw new Error('nothing to pick');
        const { address } = lease.endpoint;
        own.set(address, (own.get(address) ?? 0) + 1);
        lease.reported(report ?? counting((own.get(address) ?? 0) + 5));
        clock.advance(60);
        return lease;
      });
      expect(own.size).toBe(count);
      clock.advance(200);
      // The median is taken anew.
      for (const lease of leases) lease.end(outcomes.success);
      clock.advance(200);
    },
  };
}

/** Calls of this many seconds, ten in each, with time between them for answers. */
async function callFor({ call, clock }: Fixture, seconds: number): Promise<void> {
  for (let count = 0; count < seconds * 10; count++) {
    call();
    await clock.advanceAsync(100);
  }
}

describe('probes', () => {
  it('ask nobody while no endpoint reports', async () => {
    const all = await fixture(() => counting(5));
    await callFor(all, 10);
    expect(all.asked).toEqual([]);
  });

  it('ask at most three endpoints per call once they report, or as many as the option says', async () => {
    for (const [probes, most] of [
      ['auto', 3],
      [{}, 3],
      [{ perCall: 1 }, 1],
      [{ perCall: 0.5 }, 0.5],
    ] as const) {
      const all = await fixture(() => counting(5), { probes });
      all.hearAll();
      const before = all.asked.length;
      await callFor(all, 10);
      const perCall = (all.asked.length - before) / 100;
      expect(perCall).toBeLessThanOrEqual(most);
      // Of four, the same may be drawn twice.
      expect(perCall).toBeGreaterThan(most / 2);
      expect(new Set(all.asked.map(({ address }) => address)).size).toBe(4);
    }
  });

  it('ask nobody with "off", or 0 per call', async () => {
    for (const probes of ['off', { perCall: 0 }] as const) {
      const all = await fixture(() => counting(5), { probes });
      all.hearAll();
      await callFor(all, 5);
      expect(all.asked).toEqual([]);
    }
  });

  it('ask nobody while half of the endpoints have reports younger than 50 ms', async () => {
    const perCall = async (everyMs: number): Promise<number> => {
      const all = await fixture(() => counting(5));
      all.hearAll();
      const calls = async (count: number): Promise<void> => {
        for (; count > 0; count--) {
          all.call(counting(5));
          await all.clock.advanceAsync(everyMs);
        }
      };
      await calls(200);
      const before = all.asked.length;
      await calls(1_000);
      return (all.asked.length - before) / 1_000;
    };
    // The share is that of the last few dozens that were drawn.
    expect(await perCall(2)).toBeLessThan(0.1);
    expect(await perCall(60)).toBeGreaterThan(1);
  });

  it('ask nobody while half of the endpoints have nothing to do for others', async () => {
    const all = await fixture(() => counting(0));
    all.hearAll(counting(0));
    await callFor(all, 1);
    const before = all.asked.length;
    await callFor(all, 5);
    expect(all.asked.length).toBe(before);
  });

  it('ask nobody where there is one endpoint, or where the picker does not go by load', async () => {
    for (const [options, count] of [
      [{}, 1],
      [{ picker: roundRobin() }, 4],
      [{ picker: hash() }, 4],
      [{ load: inFlight() }, 4],
    ] as const) {
      const all = await fixture(() => counting(5), options, count);
      for (let calls = 0; calls < 200; calls++) {
        all.call(counting(6));
        await all.clock.advanceAsync(60);
      }
      expect(all.asked).toEqual([]);
    }
  });

  it('ask nobody that counts otherwise: other servers do not know the question', async () => {
    const all = await fixture(() => counting(5));
    all.hearAll({ namedMetrics: { num_requests_waiting: 5 } });
    await callFor(all, 5);
    expect(all.asked).toEqual([]);
  });

  it('tell the load what was answered', async () => {
    const all = await fixture(({ address }) => counting(address === '10.0.0.2' ? 0 : 9), {}, 3);
    all.hearAll(counting(5));
    await callFor(all, 20);
    const picked = Array.from({ length: 30 }, () => {
      const address = all.call();
      return address;
    });
    expect(picked.filter((address) => address === '10.0.0.2').length).toBeGreaterThan(20);
  });

  it.each([false, true])(
    'ask those that have not answered a call yet only where all that did count their requests (one does not: %s)',
    async (isMixed) => {
      const all = await fixture(() => counting(5), {}, 40);
      const heard = new Set<string>();
      let silent: string | undefined;
      for (let calls = 0; calls < 200; calls++) {
        const lease = all.balancer.pick();
        const address = lease?.endpoint.address ?? '';
        // Most are never called: these leases go back unused.
        if (heard.size >= 8 && !heard.has(address)) {
          lease?.end(outcomes.notStarted);
          await all.clock.advanceAsync(60);
          continue;
        }
        heard.add(address);
        silent ??= address;
        if (!isMixed || address !== silent) lease?.reported(counting(6));
        await all.clock.advanceAsync(60);
        lease?.end(outcomes.success);
      }
      const asked = new Set(all.asked.map((one) => one.address));
      const isUnknown = [...asked].some((address) => !heard.has(address));
      expect(isUnknown).toBe(!isMixed);
      expect(asked.has(silent as string)).toBe(!isMixed);
      expect(asked.size).toBeGreaterThan(3);
    },
  );

  it('have the next calls compare who answered, besides those drawn', async () => {
    const all = await fixture(({ address }) => counting(address === '10.0.0.7' ? 1 : 9), {}, 60);
    all.hearAll(counting(9));
    let followed = 0;
    for (let count = 0; count < 300; count++) {
      const before = all.asked.length;
      const address = all.call();
      if (
        all.asked
          .slice(0, before)
          .slice(-3)
          .some((asked) => asked.address === '10.0.0.7')
      ) {
        expect(address).toBe('10.0.0.7');
        followed++;
      }
      await all.clock.advanceAsync(20);
    }
    expect(followed).toBeGreaterThan(3);
  });

  it('are sent after the call, not within it', async () => {
    const all = await fixture(() => counting(5));
    all.hearAll();
    await all.clock.advanceAsync(1);
    const before = all.asked.length;
    all.call();
    expect(all.asked.length).toBe(before);
    await all.clock.advanceAsync(0);
    expect(all.asked.length).toBeGreaterThan(before);
  });

  it('ask an endpoint once that does not know the question, one at a time until one does', async () => {
    const all = await fixture(() => undefined);
    all.hearAll();
    await callFor(all, 30);
    expect(all.asked).toHaveLength(1);
    // Reports go on, so the question makes sense again; but none was ever answered.
    for (let minute = 0; minute < 10; minute++) {
      all.hearAll();
      await callFor(all, 60);
    }
    const addresses = all.asked.map(({ address }) => address);
    expect(addresses.length).toBeLessThanOrEqual(4);
    expect(new Set(addresses).size).toBe(addresses.length);
  });

  it('leave alone the one endpoint that does not know the question', async () => {
    const all = await fixture(({ address }) => (address === '10.0.0.1' ? undefined : counting(5)));
    // The first to be asked must know it, else nobody is for a minute.
    for (let minute = 0; minute < 5; minute++) {
      all.hearAll();
      await callFor(all, 60);
    }
    expect(all.asked.filter(({ address }) => address === '10.0.0.1')).toHaveLength(1);
    expect(all.asked.length).toBeGreaterThan(100);
  });

  it('are given up after their time, and paused longer each time; the endpoint is picked as before', async () => {
    const never = new Promise<Answer>(() => {});
    const all = await fixture(
      ({ address, signal }) =>
        address === '10.0.0.1'
          ? Promise.race([
              never,
              new Promise<Answer>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
            ])
          : counting(5),
      { probes: { timeoutMs: 200 } },
    );
    const ejected: string[] = [];
    for (let minute = 0; minute < 5; minute++) {
      all.hearAll();
      await callFor(all, 60);
    }
    const unanswered = all.asked.filter(({ address }) => address === '10.0.0.1');
    expect(unanswered.length).toBeGreaterThan(2);
    // 1 + 2 + 4 + … s, and a minute where none had answered before.
    expect(unanswered.length).toBeLessThanOrEqual(10);
    expect(unanswered.every(({ signal }) => signal.aborted)).toBe(true);
    expect(ejected).toEqual([]);
    const one = all.balancer.snapshot().endpoints.find(({ address }) => address.startsWith('10.0.0.1'));
    expect(one).toMatchObject({ state: 'ready', failed: 0 });
    expect(Array.from({ length: 200 }, () => all.call())).toContain('10.0.0.1');
  });

  it('ask again at once where the connection was busy', async () => {
    const all = await fixture(() => 'busy');
    all.hearAll();
    // After five seconds without a report nothing is asked.
    const before = all.asked.length;
    await callFor(all, 4);
    expect(all.asked.length - before).toBeGreaterThan(20);
  });

  it('ask nobody over a connection that has room for one more call only', async () => {
    const all = await fixture(() => counting(5));
    all.hearAll();
    for (const connection of all.transport.connections) connection.capacity = 1;
    const before = all.asked.length;
    await callFor(all, 5);
    expect(all.asked.length).toBe(before);
  });

  it('are given up when the balancer closes, so that it need not wait for them', async () => {
    const all = await fixture(() => new Promise<Answer>(() => {}));
    all.hearAll();
    all.call();
    await all.clock.advanceAsync(1);
    expect(all.asked.length).toBeGreaterThan(0);
    void all.balancer.close();
    expect(all.asked.every(({ signal }) => signal.aborted)).toBe(true);
  });

  it('are not sent once the balancer closes', async () => {
    const all = await fixture(() => counting(5));
    all.hearAll();
    await all.clock.advanceAsync(1);
    all.asked.length = 0;
    all.call();
    void all.balancer.close();
    await all.clock.advanceAsync(100);
    expect(all.asked).toEqual([]);
  });

  it.each([
    'on',
    true,
    false,
    null,
    3,
    { perCall: 4 },
    { perCall: -1 },
    { perCall: Number.NaN },
    { timeoutMs: 0 },
    { perCal: 1 },
  ])('refuse %j as an option', (probes) => {
    const options = { resolver: new FakeResolver(), transport: new FakeTransport(), probes } as never;
    expect(() => createBalancer(options)).toThrow(expect.objectContaining({ code: 'EVENKEEL_OPTION' }));
  });
});
