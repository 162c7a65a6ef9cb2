import type { Cluster, Worker } from 'node:cluster';
import { EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import { RequestCount } from '../../../src/server/request-count.js';
import { PrimaryCounts, WorkerCount, type WorkerProcess } from '../../../src/server/worker-counts.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';

/** A cluster of `workers`, with what node:cluster has of each side. */
function clusterOf(workers: number) {
  const clock = new FakeClock();
  const primary = new EventEmitter();
  const all = Array.from({ length: workers }, () => {
    const events = new EventEmitter();
    const worker = { isConnected: () => true, send: (message: unknown) => events.emit('message', message) };
    const process = Object.assign(events, { send: (message: unknown) => primary.emit('message', worker, message) });
    const count = new RequestCount();
    return {
      count,
      worker: worker as unknown as Worker,
      own: new WorkerCount(count, clock, process as never as WorkerProcess),
    };
  });
  return { clock, primary, all };
}

describe('requests in flight in the workers of a cluster', () => {
  it('are unknown until the primary answers', async () => {
    const { clock, primary, all } = clusterOf(2);
    expect(all[0]?.own.inFlight).toBeUndefined();
    await clock.advanceAsync(10_000);
    expect(all[0]?.own.inFlight).toBeUndefined();
    new PrimaryCounts(primary as unknown as Cluster, clock);
    await clock.advanceAsync(1_100);
    expect(all.map(({ own }) => own.inFlight)).toEqual([0, 0]);
  });

  it('are the sum of all workers', async () => {
    const { clock, primary, all } = clusterOf(3);
    new PrimaryCounts(primary as unknown as Cluster, clock);
    await clock.advanceAsync(1_100);
    all.forEach(({ count }, index) => {
      for (let call = 0; call <= index; call++) count.began();
    });
    await clock.advanceAsync(200);
    expect(all.map(({ own }) => own.inFlight)).toEqual([6, 6, 6]);
    // Its own count is that of now.
    all[0]?.count.began();
    expect(all[0]?.own.inFlight).toBe(7);
    for (const { count } of all) count.ended(false);
    await clock.advanceAsync(200);
    expect(all.map(({ own }) => own.inFlight)).toEqual([4, 4, 4]);
  });

  it('do not include a worker that is gone', async () => {
    const { clock, primary, all } = clusterOf(2);
    new PrimaryCounts(primary as unknown as Cluster, clock);
    const [gone, left] = all as [(typeof all)[0], (typeof all)[0]];
    gone.count.began();
    await clock.advanceAsync(1_200);
    expect(left.own.inFlight).toBe(1);
    gone.own.close();
    primary.emit('exit', gone.worker);
    await clock.advanceAsync(100);
    expect(left.own.inFlight).toBe(0);
  });

  it('are not affected by invalid messages', async () => {
    const { clock, primary, all } = clusterOf(1);
    const counts = new PrimaryCounts(primary as unknown as Cluster, clock);
    for (const message of [null, 'text', { evenkeel: 'in-flight' }, { evenkeel: 'in-flight', count: Number.NaN }]) {
      primary.emit('message', all[0]?.worker, message);
    }
    await clock.advanceAsync(1_100);
    expect(all[0]?.own.inFlight).toBe(0);
    all[0]?.own.close();
    counts.close();
    expect(clock.timers).toBe(0);
  });

  it('use one listener per event for any number of pods, and none after the last is closed', () => {
    const clock = new FakeClock();
    const primary = new EventEmitter();
    const process = Object.assign(new EventEmitter(), { send: () => true });
    const counts = Array.from({ length: 11 }, () => [
      new PrimaryCounts(primary as unknown as Cluster, clock),
      new WorkerCount(new RequestCount(), clock, process as never as WorkerProcess),
    ]).flat();
    const listeners = () =>
      [primary, process].flatMap((source) => source.eventNames().map((event) => source.listenerCount(event)));
    expect(listeners()).toEqual([1, 1, 1]);
    for (const count of counts) count.close();
    expect(listeners()).toEqual([]);
  });
});
