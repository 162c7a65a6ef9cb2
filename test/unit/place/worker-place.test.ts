import type { Cluster, Worker } from 'node:cluster';
import { EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import type { WorkerProcess } from '../../../src/place/worker-messages.js';
import { PrimaryPlaces, WorkerPlace } from '../../../src/place/worker-place.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';

const SERVICE = 'orders.shop:8080';
const SETTLED_MS = 31_000;

/** A cluster, with what node:cluster has of each side. */
class FakeCluster extends EventEmitter {
  readonly clock = new FakeClock();
  readonly workers: Record<string, Worker> = {};
  #forked = 0;

  fork() {
    const id = String(++this.#forked);
    const toWorker = new EventEmitter();
    const worker = {
      id,
      isConnected: () => id in this.workers,
      send: (message: unknown) => toWorker.emit('message', message),
    } as unknown as Worker;
    this.workers[id] = worker;
    const process = Object.assign(toWorker, { send: (message: unknown) => this.emit('message', worker, message) });
    let changes = 0;
    return {
      call: (service = SERVICE) =>
        new WorkerPlace(service, this.clock, process as never as WorkerProcess, () => changes++),
      exit: () => {
        delete this.workers[id];
        this.emit('disconnect', worker);
        this.emit('exit', worker);
      },
      said: (message: unknown) => this.emit('message', worker, message),
      told: (message: unknown) => toWorker.emit('message', message),
      get changes() {
        return changes;
      },
    };
  }

  get asCluster(): Cluster {
    return this as unknown as Cluster;
  }
}

const placesOf = (workers: readonly WorkerPlace[]): string[] =>
  workers.map(({ place }) => (place === undefined ? 'none' : `${place.index}/${place.count}`));

describe('the places of the workers of a cluster', () => {
  it('cover all forked workers from the first answer on', () => {
    const cluster = new FakeCluster();
    new PrimaryPlaces(cluster.asCluster, cluster.clock);
    const all = Array.from({ length: 3 }, () => cluster.fork());
    const places = all.map((worker) => worker.call());
    expect(placesOf(places)).toEqual(['0/3', '1/3', '2/3']);
    cluster.clock.advance(SETTLED_MS);
    expect(all.map(({ changes }) => changes)).toEqual([1, 1, 1]);
  });

  it('are unknown while the primary does not answer, and found when it does', () => {
    const cluster = new FakeCluster();
    const [first, second] = [cluster.fork(), cluster.fork()];
    const places = [first.call(), second.call()];
    cluster.clock.advance(10_000);
    expect(placesOf(places)).toEqual(['none', 'none']);
    new PrimaryPlaces(cluster.asCluster, cluster.clock);
    cluster.clock.advance(60_000);
    expect(placesOf(places)).toEqual(['0/2', '1/2']);
  });

  it('pass to a replacement worker, and no other worker moves', () => {
    const cluster = new FakeCluster();
    new PrimaryPlaces(cluster.asCluster, cluster.clock);
    const all = Array.from({ length: 4 }, () => cluster.fork());
    const places = all.map((worker) => worker.call());
    cluster.clock.advance(SETTLED_MS);
    all[1]?.exit();
    const late = cluster.fork();
    cluster.clock.advance(20_000);
    const place = late.call();
    cluster.clock.advance(SETTLED_MS);
    expect(placesOf([place])).toEqual(['1/4']);
    expect(placesOf(places.filter((_, index) => index !== 1))).toEqual(['0/4', '2/4', '3/4']);
    expect(all.map(({ changes }) => changes)).toEqual([1, 1, 1, 1]);
  });

  it('pass to a worker that starts before the other one ends', () => {
    const cluster = new FakeCluster();
    new PrimaryPlaces(cluster.asCluster, cluster.clock);
    const all = Array.from({ length: 4 }, () => cluster.fork());
    const places = all.map((worker) => worker.call());
    cluster.clock.advance(SETTLED_MS);
    const next = cluster.fork();
    const place = next.call();
    // Until then it shares a part: it has to begin with something.
    expect(placesOf([place])).toEqual(['0/4']);
    cluster.clock.advance(20_000);
    all[2]?.exit();
    cluster.clock.advance(2 * SETTLED_MS);
    expect(placesOf([place])).toEqual(['2/4']);
    expect(placesOf([places[0], places[1], places[3]] as WorkerPlace[])).toEqual(['0/4', '1/4', '3/4']);
  });

  it('are recomputed when workers are gone for good, or more have started', () => {
    const cluster = new FakeCluster();
    new PrimaryPlaces(cluster.asCluster, cluster.clock);
    const all = Array.from({ length: 4 }, () => cluster.fork());
    const places = all.map((worker) => worker.call());
    cluster.clock.advance(SETTLED_MS);
    all[0]?.exit();
    cluster.clock.advance(SETTLED_MS);
    // The last one takes the free part; the others keep theirs.
    expect(placesOf(places.slice(1))).toEqual(['1/3', '2/3', '0/3']);
    const more = [cluster.fork(), cluster.fork()].map((worker) => worker.call());
    cluster.clock.advance(SETTLED_MS);
    expect(placesOf([...places.slice(1), ...more])).toEqual(['1/5', '2/5', '0/5', '3/5', '4/5']);
  });

  it('are recomputed in time even if workers start and end all the time', () => {
    const cluster = new FakeCluster();
    new PrimaryPlaces(cluster.asCluster, cluster.clock);
    const place = cluster.fork().call();
    for (let time = 0; time < 30; time++) {
      const other = cluster.fork();
      other.call();
      cluster.clock.advance(5_000);
      if (time > 0) other.exit();
    }
    expect(place.place?.count).toBeGreaterThan(1);
  });

  it('are counted for each Service by the workers that call it', () => {
    const cluster = new FakeCluster();
    new PrimaryPlaces(cluster.asCluster, cluster.clock);
    const all = Array.from({ length: 3 }, () => cluster.fork());
    const orders = all.map((worker) => worker.call());
    const users = all.slice(0, 2).map((worker) => worker.call('users.shop:8080'));
    cluster.clock.advance(SETTLED_MS);
    expect(placesOf(orders)).toEqual(['0/3', '1/3', '2/3']);
    expect(placesOf(users)).toEqual(['0/2', '1/2']);
  });

  it('start from the beginning once nobody calls the Service any more', () => {
    const cluster = new FakeCluster();
    new PrimaryPlaces(cluster.asCluster, cluster.clock);
    const all = Array.from({ length: 3 }, () => cluster.fork());
    const places = all.map((worker) => worker.call());
    cluster.clock.advance(SETTLED_MS);
    for (const place of places) place.close();
    cluster.clock.advance(SETTLED_MS);
    const again = all.map((worker) => worker.call());
    expect(placesOf(again)).toEqual(['0/3', '1/3', '2/3']);
  });

  it('are one per worker, however many balancers it has', () => {
    const cluster = new FakeCluster();
    new PrimaryPlaces(cluster.asCluster, cluster.clock);
    const all = [cluster.fork(), cluster.fork()];
    const places = all.flatMap((worker) => [worker.call(), worker.call()]);
    cluster.clock.advance(SETTLED_MS);
    expect(placesOf(places)).toEqual(['0/2', '0/2', '1/2', '1/2']);
    places[0]?.close();
    cluster.clock.advance(SETTLED_MS);
    expect(placesOf(places.slice(1))).toEqual(['0/2', '1/2', '1/2']);
    places[1]?.close();
    cluster.clock.advance(SETTLED_MS);
    expect(placesOf(places.slice(2))).toEqual(['0/1', '0/1']);
  });

  it('are not affected by foreign messages', () => {
    const cluster = new FakeCluster();
    const primary = new PrimaryPlaces(cluster.asCluster, cluster.clock);
    const worker = cluster.fork();
    for (const message of [null, 'text', { evenkeel: 'place' }, { evenkeel: 'place', service: 7 }])
      worker.said(message);
    worker.said({ evenkeel: 'place', service: SERVICE, balancer: 1, isLeaving: true });
    const place = worker.call();
    for (const part of [{}, { index: 3, count: 3 }, { index: 'x', count: 2 }, { index: 0.5, count: 2 }]) {
      worker.told({ evenkeel: 'place', service: SERVICE, ...part });
    }
    expect(placesOf([place])).toEqual(['0/1']);
    place.close();
    primary.close();
    expect(cluster.clock.timers).toBe(0);
    expect(cluster.eventNames()).toEqual([]);
  });
});
