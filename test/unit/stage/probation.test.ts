import { describe, expect, it } from 'vitest';
import { type Balancer, createBalancer } from '../../../src/balancer/balancer.js';
import type { Lease } from '../../../src/call/lease.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { roundRobin } from '../../../src/picker/round-robin.js';
import { FakeClock, settle } from '../../../src/testing/fake-clock.js';
import { FakeResolver } from '../../../src/testing/fake-resolver.js';
import { type FakeConnection, FakeTransport } from '../../../src/testing/fake-transport.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';

type Call = Lease<FakeConnection>;

/** A balancer over standard stages in which 10.0.0.1 has failed five times, with `hanging` calls still on it. */
async function withOneEjected(
  hanging = 0,
): Promise<{ balancer: Balancer<FakeConnection>; clock: FakeClock; held: Call[] }> {
  const clock = new FakeClock();
  const resolver = new FakeResolver();
  const balancer = createBalancer({
    resolver,
    transport: new FakeTransport(),
    clock,
    rng: seededRng(1),
    picker: roundRobin(),
    pool: { maxConnectionAgeMs: Number.POSITIVE_INFINITY },
  });
  resolver.update('10.0.0.1', '10.0.0.2', '10.0.0.3');
  await balancer.ready();
  await settle();
  const held: Call[] = [];
  for (let failures = 0; failures < 5; ) {
    const call = balancer.pick() as Call;
    if (call.endpoint.address !== '10.0.0.1') call.end(outcomes.success);
    else if (held.length < hanging) held.push(call);
    else {
      call.end(outcomes.timeout);
      failures++;
    }
  }
  await settle();
  return { balancer, clock, held };
}

function callsOnFirst(balancer: Balancer<FakeConnection>, picks: number): Call[] {
  const calls = Array.from({ length: picks }, () => balancer.pick() as Call);
  return calls.filter((call) => {
    if (call.endpoint.address === '10.0.0.1') return true;
    call.end(outcomes.success);
    return false;
  });
}

describe('an endpoint on probation', () => {
  it('gets no call while it is ejected, and then one at a time', async () => {
    const { balancer, clock } = await withOneEjected();
    expect(callsOnFirst(balancer, 90)).toHaveLength(0);
    await clock.advanceAsync(1_101);
    // Also of many picks in one turn only one goes there.
    const [probation, ...more] = callsOnFirst(balancer, 90);
    expect(probation).toBeDefined();
    expect(more).toEqual([]);
    probation?.end(outcomes.success);
    await settle();
    expect(callsOnFirst(balancer, 90)).toHaveLength(30);
  });

  it('is ejected for longer when its trial call fails', async () => {
    const { balancer, clock } = await withOneEjected();
    await clock.advanceAsync(1_101);
    callsOnFirst(balancer, 90)[0]?.end(outcomes.timeout);
    await settle();
    await clock.advanceAsync(1_700);
    expect(callsOnFirst(balancer, 90)).toHaveLength(0);
    await clock.advanceAsync(600);
    expect(callsOnFirst(balancer, 90)).toHaveLength(1);
  });

  it('gets its trial even if earlier calls still hang, and their ends make no room for more', async () => {
    const { balancer, clock, held } = await withOneEjected(4);
    await clock.advanceAsync(1_101);
    const probation = callsOnFirst(balancer, 90);
    expect(probation).toHaveLength(1);
    for (const call of held) call.end(outcomes.timeout);
    expect(callsOnFirst(balancer, 90)).toHaveLength(0);
    probation[0]?.end(outcomes.cancelled); // no verdict: the next call is the trial
    expect(callsOnFirst(balancer, 90)).toHaveLength(1);
  });

  it('gets one more trial call every ten seconds while there is no result', async () => {
    const { balancer, clock } = await withOneEjected();
    await clock.advanceAsync(1_101);
    expect(callsOnFirst(balancer, 90)).toHaveLength(1);
    await clock.advanceAsync(10_001);
    expect(callsOnFirst(balancer, 90)).toHaveLength(1);
  });

  it('gets waiting callers again once it is restored', async () => {
    const { balancer, clock } = await withOneEjected();
    await clock.advanceAsync(1_101);
    expect(balancer.snapshot().endpoints[0]).toMatchObject({ suspect: false, weight: 1, capacity: 1 });
    callsOnFirst(balancer, 90)[0]?.end(outcomes.success);
    await settle();
    expect(balancer.snapshot().endpoints[0]).toMatchObject({ capacity: -1 });
    await balancer.close();
    expect(clock.timers).toBe(0);
  });
});
