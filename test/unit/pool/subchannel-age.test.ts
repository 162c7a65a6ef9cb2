import { describe, expect, it } from 'vitest';
import { Attributes } from '../../../src/endpoint/attributes.js';
import { endpointConnectionAgeMs } from '../../../src/endpoint/connection-age.js';
import { createEndpoint } from '../../../src/endpoint/endpoint.js';
import { resolvePoolOptions } from '../../../src/pool/pool-options.js';
import { Recycle } from '../../../src/pool/recycle.js';
import { FakeClock, settle } from '../../../src/testing/fake-clock.js';
import { readyHouse } from '../../support/subchannel-house.js';

const AGE_MS = 60_000;

describe('the maximum age', () => {
  const aging = { pool: { maxConnectionAgeMs: AGE_MS } };

  it('opens the replacement first, then lets the old connection finish', async () => {
    const house = await readyHouse(aging);
    const old = house.last;
    const call = old.begin();
    house.changes.length = 0;
    await house.clock.advanceAsync(AGE_MS);
    expect(house.fake.connections).toHaveLength(2);
    expect(house.subchannel.connection).toBe(house.last);
    expect([old.isOpen, old.closing]).toEqual([true, 'finish']);
    expect(house.changes).toEqual([]);
    call.finish();
    await settle();
    expect(old.isOpen).toBe(false);
    expect(house.clock.nextInMs).toBe(AGE_MS);
  });

  it.each([
    [0, 0.5],
    [0.25, 0.75],
    [0.9999, 1.5],
  ])('is moved by up to half either way: with a draw of %f to %f times', (draw, times) => {
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
    const house = await readyHouse(aging);
    house.behaviour = 'refuse';
    await house.clock.advanceAsync(AGE_MS);
    expect(house.state).toBe('ready');
    expect(house.fake.open()).toEqual([house.subchannel.connection]);
    house.behaviour = 'accept';
    await house.clock.advanceAsync(AGE_MS);
    expect(house.fake.connections).toHaveLength(2);
  });

  it('calls the replacement off when the old connection is lost meanwhile', async () => {
    const house = await readyHouse(aging);
    house.behaviour = 'hang';
    await house.clock.advanceAsync(AGE_MS);
    expect(house.fake.hanging).toBe(1);
    house.behaviour = 'accept';
    house.last.end();
    await settle();
    expect(house.fake.hanging).toBe(0);
    expect(house.state).toBe('ready');
    expect(house.fake.open()).toHaveLength(1);
  });

  it('ignores late events of the replaced connection', async () => {
    const house = await readyHouse(aging);
    const old = house.last;
    old.begin();
    await house.clock.advanceAsync(AGE_MS);
    house.changes.length = 0;
    old.end(new Error('late'));
    old.leave();
    await settle();
    expect(house.changes).toEqual([]);
    expect(house.told).toEqual(['connected']);
  });

  it('goes on counting while the endpoint drains: flapping makes no connection older than it may be', async () => {
    const house = await readyHouse(aging);
    for (let flap = 0; flap < 5; flap++) {
      await house.clock.advanceAsync(10_000);
      house.subchannel.drain(false);
      await house.clock.advanceAsync(1_000);
      house.subchannel.revive();
    }
    expect(house.fake.connections).toHaveLength(1);
    await house.clock.advanceAsync(AGE_MS - 55_000);
    expect(house.fake.connections).toHaveLength(2);
  });

  it('may be shorter for one endpoint', async () => {
    const attributes = Attributes.empty.with(endpointConnectionAgeMs, 5_000);
    const house = await readyHouse({ ...aging, endpoint: { attributes } });
    await house.clock.advanceAsync(5_000);
    expect(house.fake.connections).toHaveLength(2);
  });
});
