import { describe, expect, it } from 'vitest';
import { Attributes } from '../../../src/endpoint/attributes.js';
import { endpointConnectionAgeMs } from '../../../src/endpoint/connection-age.js';
import { createEndpoint } from '../../../src/endpoint/endpoint.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { resolvePoolOptions } from '../../../src/pool/pool-options.js';
import { Recycle } from '../../../src/pool/recycle.js';
import { FakeClock, settle } from '../../../src/testing/fake-clock.js';
import { expectNothingLeft, readyFixture, type SubchannelFixture } from '../../support/fixtures/subchannel-fixture.js';

const AGE_MS = 60_000;

describe('an outdated connection', () => {
  const fresh = () => readyFixture({ pool: { maxConnectionAgeMs: 600_000 } });

  it('is replaced: the new one is opened first, and running calls finish on the old one', async () => {
    const fixture = await fresh();
    const old = fixture.last;
    const call = old.begin();
    fixture.changes.length = 0;
    old.outdate();
    await settle();
    await fixture.clock.advanceAsync(0);
    expect(fixture.fake.connections).toHaveLength(2);
    expect(fixture.subchannel.connection).toBe(fixture.last);
    expect([old.isOpen, old.closing, fixture.changes]).toEqual([true, 'finish', []]);
    call.finish();
    await settle();
    expect(old.isOpen).toBe(false);
    await fixture.clock.advanceAsync(599_000);
    expect(fixture.fake.connections).toHaveLength(2);
  });

  it('stays in use where no other can be opened, which is tried again every 10 s', async () => {
    const fixture = await fresh();
    const old = fixture.last;
    fixture.behaviour = 'refuse';
    old.outdate();
    await settle();
    await fixture.clock.advanceAsync(29_999);
    expect([fixture.state, fixture.fake.attempts.length, fixture.subchannel.connection]).toEqual(['ready', 4, old]);
    fixture.behaviour = 'accept';
    await fixture.clock.advanceAsync(1);
    expect(fixture.subchannel.connection).toBe(fixture.last);
    expect(fixture.last).not.toBe(old);
    await fixture.clock.advanceAsync(599_000);
    expect(fixture.fake.connections).toHaveLength(2);
  });

  it('to an endpoint that left is replaced when that returns, and not before', async () => {
    const fixture = await fresh();
    fixture.subchannel.drain(false);
    fixture.last.outdate();
    await settle();
    await fixture.clock.advanceAsync(1_000);
    expect(fixture.fake.connections).toHaveLength(1);
    fixture.subchannel.revive();
    await fixture.clock.advanceAsync(0);
    expect(fixture.fake.connections).toHaveLength(2);
    expect(fixture.state).toBe('ready');
  });

  it('that is being closed already is not replaced again', async () => {
    const fixture = await fresh();
    const old = fixture.last;
    old.begin();
    await fixture.clock.advanceAsync(600_000);
    expect(fixture.fake.connections).toHaveLength(2);
    old.outdate();
    await settle();
    await fixture.clock.advanceAsync(1_000);
    expect(fixture.fake.connections).toHaveLength(2);
  });
});

describe('the maximum age', () => {
  const aging = { pool: { maxConnectionAgeMs: AGE_MS } };

  it('opens the replacement first, then lets the old connection finish', async () => {
    const fixture = await readyFixture(aging);
    const old = fixture.last;
    const call = old.begin();
    fixture.changes.length = 0;
    await fixture.clock.advanceAsync(AGE_MS);
    expect(fixture.fake.connections).toHaveLength(2);
    expect(fixture.subchannel.connection).toBe(fixture.last);
    expect([old.isOpen, old.closing]).toEqual([true, 'finish']);
    expect(fixture.changes).toEqual([]);
    call.finish();
    await settle();
    expect(old.isOpen).toBe(false);
    expect(fixture.clock.nextInMs).toBe(AGE_MS);
  });

  it('lets running calls continue without a limit, and closes the connection with its last call', async () => {
    const fixture = await readyFixture({ pool: { maxConnectionAgeMs: AGE_MS, drainTimeoutMs: 1_000 } });
    const old = fixture.last;
    const running = old.begin();
    const call = fixture.call();
    await fixture.clock.advanceAsync(10 * AGE_MS);
    expect([old.isOpen, old.closing]).toEqual([true, 'finish']);
    running.finish();
    call.end();
    expect(await running.ended).toBe('finished');
    await settle();
    expect(fixture.fake.open()).toEqual([fixture.subchannel.connection]);
    fixture.subchannel.drain(true);
    await expectNothingLeft(fixture);
  });

  it('ends a connection that does not close by itself, once no call runs on the endpoint', async () => {
    const fixture = await readyFixture({ pool: { maxConnectionAgeMs: AGE_MS, drainTimeoutMs: 0 } });
    const old = fixture.last;
    // The connection believes that something runs.
    old.begin();
    const call = fixture.call();
    await fixture.clock.advanceAsync(1.5 * AGE_MS);
    expect([old.isOpen, old.closing]).toEqual([true, 'finish']);
    call.end();
    await fixture.clock.advanceAsync(1_000);
    expect([old.isOpen, old.closing]).toEqual([false, 'cut']);
    fixture.subchannel.drain(true);
    await expectNothingLeft(fixture);
  });

  it.each([
    ['the drain timeout of its endpoint, when that leaves', 30_000, ({ subchannel }) => subchannel.drain(true)],
    ['the end of its endpoint', 0, ({ subchannel }) => subchannel.destroy()],
  ] satisfies [string, number, (fixture: SubchannelFixture) => void][])(
    'does not protect calls on the old connection from %s',
    async (_, afterMs, leave) => {
      const fixture = await readyFixture(aging);
      const old = fixture.last;
      const running = old.begin();
      const call = fixture.call();
      await fixture.clock.advanceAsync(3.5 * AGE_MS);
      leave(fixture);
      if (afterMs > 0) {
        await fixture.clock.advanceAsync(afterMs - 1);
        expect(old.isOpen).toBe(true);
        await fixture.clock.advanceAsync(1);
      }
      expect(await running.ended).toBe('cut');
      call.end(outcomes.reset);
      await expectNothingLeft(fixture);
    },
  );

  it.each([
    [0, 0.5],
    [0.25, 0.75],
    [0.9999, 1.5],
  ])('is varied by up to half: with a random number of %f to %f times', (draw, times) => {
    const clock = new FakeClock();
    let due = 0;
    const owner = { clock, rng: { next: () => draw }, options: { ...resolvePoolOptions(aging.pool) } };
    new Recycle(owner, () => due++).renew(createEndpoint({ address: '10.0.0.1', port: 80 }));
    clock.advance(times * AGE_MS - 10);
    expect(due).toBe(0);
    clock.advance(20);
    expect(due).toBe(1);
  });

  it('keeps the old connection when the replacement fails, and tries again after another age', async () => {
    const fixture = await readyFixture(aging);
    fixture.behaviour = 'refuse';
    await fixture.clock.advanceAsync(AGE_MS);
    expect(fixture.state).toBe('ready');
    expect(fixture.fake.open()).toEqual([fixture.subchannel.connection]);
    fixture.behaviour = 'accept';
    await fixture.clock.advanceAsync(AGE_MS);
    expect(fixture.fake.connections).toHaveLength(2);
  });

  it('aborts the replacement when the old connection is lost meanwhile', async () => {
    const fixture = await readyFixture(aging);
    fixture.behaviour = 'hang';
    await fixture.clock.advanceAsync(AGE_MS);
    expect(fixture.fake.hanging).toBe(1);
    fixture.behaviour = 'accept';
    fixture.last.end();
    await settle();
    expect(fixture.fake.hanging).toBe(0);
    expect(fixture.state).toBe('ready');
    expect(fixture.fake.open()).toHaveLength(1);
  });

  it('ignores late events of the replaced connection', async () => {
    const fixture = await readyFixture(aging);
    const old = fixture.last;
    old.begin();
    await fixture.clock.advanceAsync(AGE_MS);
    fixture.changes.length = 0;
    old.end(new Error('late'));
    old.leave();
    await settle();
    expect(fixture.changes).toEqual([]);
    expect(fixture.told).toEqual(['connected']);
  });

  it('continues to count while the endpoint drains: flapping makes no connection older than allowed', async () => {
    const fixture = await readyFixture(aging);
    for (let flap = 0; flap < 5; flap++) {
      await fixture.clock.advanceAsync(10_000);
      fixture.subchannel.drain(false);
      await fixture.clock.advanceAsync(1_000);
      fixture.subchannel.revive();
    }
    expect(fixture.fake.connections).toHaveLength(1);
    await fixture.clock.advanceAsync(AGE_MS - 55_000);
    expect(fixture.fake.connections).toHaveLength(2);
  });

  it('may be shorter for one endpoint', async () => {
    const attributes = Attributes.empty.with(endpointConnectionAgeMs, 5_000);
    const fixture = await readyFixture({ ...aging, endpoint: { attributes } });
    await fixture.clock.advanceAsync(5_000);
    expect(fixture.fake.connections).toHaveLength(2);
  });
});
