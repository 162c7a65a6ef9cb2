import { Metadata } from '@grpc/grpc-js';
import { hash, leastLoaded, peakEwma, reported, roundRobin, staticEndpoints, without } from 'evenkeel';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/until.js';
import { connected, ordersClient, say } from './support/client.js';
import { type Pod, Pods } from './support/pods.js';
import { tally } from './support/spread.js';

const pods = new Pods();
const open: { close(): void }[] = [];

beforeAll(() => pods.start(4));
afterAll(() => pods.stop());
afterEach(async () => {
  for (const client of open.splice(0)) client.close();
  await Promise.all(pods.all.map((pod) => pod.set({ delayMs: 0, load: '' })));
});

async function orders(options: Parameters<typeof ordersClient>[0]) {
  const made = ordersClient({
    resolver: staticEndpoints(pods.endpoints),
    stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
    ...options,
  });
  open.push(made.client);
  await connected(made.balancer, 4);
  return made;
}

function withUser(user: string): { readonly metadata: Metadata } {
  const metadata = new Metadata();
  metadata.set('x-user', user);
  return { metadata };
}

describe('least loaded', () => {
  it('counts a call from its start to its end', async () => {
    const { client, balancer } = await orders({ picker: leastLoaded() });
    const streams = Array.from({ length: 10 }, () => client.watch({ text: 'busy' }));
    for (const stream of streams) stream.on('error', () => {});
    const inFlight = () => balancer.snapshot().endpoints.map(({ inFlight }) => inFlight);
    await until('all have begun', () => inFlight().reduce((sum, calls) => sum + calls) === 10);
    expect(inFlight().sort()).toEqual([2, 2, 3, 3]);
    await until(
      'the pods have them',
      async () => (await pods.stats()).reduce((sum, { running }) => sum + running, 0) === 10,
    );
    for (const stream of streams) stream.cancel();
    await until('all have ended', () => inFlight().every((calls) => calls === 0));
  });
});

describe('round robin', () => {
  it('measures only calls in flight, of which an idle pod has the cost of one', async () => {
    const { client, balancer } = await orders({ picker: roundRobin() });
    for (let call = 0; call < 8; call++) await say(client);
    expect(balancer.snapshot().endpoints.map(({ load }) => load)).toEqual([1, 1, 1, 1]);
  });
});

describe('peak EWMA', () => {
  it('sends few calls to a slow pod', async () => {
    await pods.all[1]?.set({ delayMs: 100 });
    const { client } = await orders({ picker: leastLoaded(), load: peakEwma() });
    const names: string[] = [];
    for (let call = 0; call < 200; call++) names.push((await say(client)).pod);
    expect(tally(names).get('pod-1') ?? 0).toBeLessThan(10);
  });

  it('does not hold the length of a stream against its pod', async () => {
    const { client, balancer } = await orders({ picker: leastLoaded(), load: peakEwma() });
    const numbers = client.count({ numbers: 5, pause_ms: 300 });
    await new Promise((resolve) => numbers.on('data', () => {}).on('end', resolve));
    await until('it has ended', () => balancer.snapshot().endpoints.every(({ inFlight }) => inFlight === 0));
    // The load of an endpoint that took 1,200 ms for an answer would be 1,200,000 at least.
    const tried = balancer.snapshot().endpoints.filter(({ started }) => started === 1);
    expect(tried.map(({ load }) => load < 1_000_000)).toEqual([true]);
  });
});

describe('hash', () => {
  it('sends calls with the same key to one pod, by metadata', async () => {
    const { client } = await orders({ picker: hash(), key: 'X-User' });
    const homes = new Map<string, Set<string>>();
    for (let call = 0; call < 120; call++) {
      const user = `user-${call % 30}`;
      const { pod } = await say(client, withUser(user));
      homes.set(user, (homes.get(user) ?? new Set()).add(pod));
    }
    expect([...homes.values()].every(({ size }) => size === 1)).toBe(true);
    expect(new Set([...homes.values()].flatMap((pods) => [...pods])).size).toBe(4);
  });

  it('accepts a function; a call without a key goes anywhere, and one whose function throws goes without a key', async () => {
    const warnings: string[] = [];
    const { client } = await orders({
      picker: hash(),
      key: (metadata) => {
        const [user] = metadata.get('x-user');
        if (user === 'broken') throw new Error('no such user');
        return user?.toString().slice(0, 5);
      },
      observer: { warned: ({ message }) => warnings.push(message) },
    });
    const names = new Set<string>();
    for (let call = 0; call < 20; call++) names.add((await say(client, withUser(`alice-${call}`))).pod);
    expect(names.size).toBe(1);
    await say(client);
    expect(warnings).toEqual([]);
    expect((await say(client, withUser('broken'))).text).toBe('hello');
    expect(warnings).toEqual(['key threw; the call has no key']);
  });
});

describe('what servers report (ORCA)', () => {
  /** OrcaLoadReport { application_utilization = 9 }. */
  const report = (utilization: number): string => {
    const message = Buffer.alloc(9);
    message.writeUInt8((9 << 3) | 1, 0);
    message.writeDoubleLE(utilization, 1);
    return message.toString('base64');
  };

  it('steers calls by the trailers of earlier ones', async () => {
    const [busy, ...idle] = pods.all as [Pod, ...Pod[]];
    await busy.set({ load: report(0.9) });
    await Promise.all(idle.map((pod) => pod.set({ load: report(0.2) })));
    const { client } = await orders({ picker: leastLoaded(), load: reported() });
    const names: string[] = [];
    for (let call = 0; call < 100; call++) names.push((await say(client)).pod);
    expect(tally(names).get(busy.name) ?? 0).toBeLessThanOrEqual(4);
  });
});
