import type { Cluster, Worker } from 'node:cluster';
import { EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import { type Group, type GroupListener, MEMBERS_EACH, memberNumber } from '../../../src/runtime/group.js';
import { type ThreadChannel, ThreadGroup } from '../../../src/runtime/thread-group.js';
import { PrimaryGroups, WorkerGroup } from '../../../src/runtime/worker-group.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';

/** A member that writes down what it hears. */
class Recorder implements GroupListener {
  readonly told: string[] = [];

  joined(others: readonly number[]): void {
    this.told.push(`joined ${others.map(short).join(' ')}`.trim());
  }

  came(member: number): void {
    this.told.push(`came ${short(member)}`);
  }

  gone(member: number): void {
    this.told.push(`gone ${short(member)}`);
  }

  heard(from: number, message: unknown): void {
    this.told.push(`${short(from)} ${JSON.stringify(message)}`);
  }
}

/** Of which worker or thread it is. */
const short = (member: number): number => Math.floor(member / MEMBERS_EACH);

/** A cluster whose messages arrive at once; `unread` workers never take theirs. */
class FakeCluster extends EventEmitter {
  readonly clock: FakeClock = new FakeClock();
  readonly unread: Set<number> = new Set();
  sent = 0;
  #forked = 0;

  fork(): {
    readonly id: number;
    readonly join: (name?: string) => { readonly group: Group; readonly recorder: Recorder };
    readonly say: (message: unknown) => void;
    readonly hear: (message: unknown) => void;
    readonly exit: () => void;
  } {
    const id = ++this.#forked;
    const toWorker = new EventEmitter();
    const worker = {
      id,
      isConnected: () => true,
      send: (message: unknown, done: () => void) => {
        this.sent += 1;
        if (this.unread.has(id)) return;
        toWorker.emit('message', JSON.parse(JSON.stringify(message)));
        done();
      },
    } as unknown as Worker;
    const say = (message: unknown): void => {
      this.emit('message', worker, message === undefined ? undefined : JSON.parse(JSON.stringify(message)));
    };
    const process = Object.assign(toWorker, { send: say, connected: true });
    return {
      id,
      join: (name = 'orders') => {
        const recorder = new Recorder();
        return { group: new WorkerGroup(name, memberNumber(id), this.clock, process as never, recorder), recorder };
      },
      say,
      hear: (message) => toWorker.emit('message', message),
      exit: () => {
        this.emit('disconnect', worker);
        this.emit('exit', worker);
      },
    };
  }

  get asCluster(): Cluster {
    return this as unknown as Cluster;
  }
}

describe('a group of workers', () => {
  it('knows who is in it, hears all and each, and who is gone', () => {
    const cluster = new FakeCluster();
    const primary = new PrimaryGroups(cluster.asCluster);
    const workers = [cluster.fork(), cluster.fork(), cluster.fork()];
    const [a, b, c] = workers.map((worker) => worker.join());
    const elsewhere = workers[0]?.join('payments');
    a?.group.send({ hello: 1 });
    c?.group.send({ hello: 2 }, b?.group.self);
    workers[0]?.exit();
    b?.group.close();
    expect(a?.recorder.told).toEqual(['joined', 'came 2', 'came 3']);
    expect(b?.recorder.told).toEqual(['joined 1', 'came 3', '1 {"hello":1}', '3 {"hello":2}', 'gone 1']);
    expect(c?.recorder.told).toEqual(['joined 1 2', '1 {"hello":1}', 'gone 1', 'gone 2']);
    expect(elsewhere?.recorder.told).toEqual(['joined']);
    c?.group.close();
    expect(primary.size).toBe(0);
    primary.close();
    expect(cluster.eventNames()).toEqual([]);
    cluster.clock.advance(120_000);
    expect(cluster.clock.timers).toBe(0);
  });

  it('two copies of evenkeel in one worker are two members', () => {
    const cluster = new FakeCluster();
    new PrimaryGroups(cluster.asCluster);
    const worker = cluster.fork();
    const [first, second] = [worker.join(), worker.join()];
    first.group.send({ hello: 1 });
    expect(first.recorder.told).toEqual(['joined', 'came 1']);
    expect(second.recorder.told).toEqual(['joined 1', '1 {"hello":1}']);
  });

  it('asks again while nobody answers, ever more seldom, and finds a primary that loads evenkeel later', () => {
    const cluster = new FakeCluster();
    let asked = 0;
    cluster.on('message', () => asked++);
    const { group, recorder } = cluster.fork().join();
    cluster.clock.advance(600_000);
    expect(asked).toBeGreaterThan(10);
    expect(asked).toBeLessThan(20);
    expect(recorder.told).toEqual([]);
    new PrimaryGroups(cluster.asCluster);
    cluster.clock.advance(60_000);
    expect(recorder.told).toEqual(['joined']);
    group.close();
    expect(cluster.clock.timers).toBe(0);
  });

  it('asked who is there, it is told anew', () => {
    const cluster = new FakeCluster();
    new PrimaryGroups(cluster.asCluster);
    const [a, b] = [cluster.fork(), cluster.fork()].map((worker) => worker.join());
    a?.group.join();
    expect(a?.recorder.told).toEqual(['joined', 'came 2', 'joined 2']);
    expect(b?.recorder.told).toEqual(['joined 1']);
  });

  it('what is no message of ours, or speaks for another worker, changes nothing', () => {
    const cluster = new FakeCluster();
    const primary = new PrimaryGroups(cluster.asCluster);
    const [one, two] = [cluster.fork(), cluster.fork()];
    const { group, recorder } = one.join();
    const good = { evenkeel: 'group', group: 'orders', member: group.self };
    for (const message of [
      undefined,
      null,
      7,
      'group',
      [],
      { evenkeel: 'group' },
      { ...good, member: -1 },
      { ...good, member: 1.5 },
      { ...good, member: '1' },
      { ...good, group: 7 },
      { ...good, group: 'x'.repeat(1_000), does: 'join' },
      { ...good, does: 'rule' },
      // Of another worker.
      { ...good, does: 'leave' },
      { ...good, does: 'say', message: 'forged' },
    ]) {
      two.say(message);
      one.hear(message);
    }
    one.hear({ ...good, what: 'joined', others: ['a', Number.NaN, 9 * MEMBERS_EACH] });
    one.hear({ ...good, what: 'joined', others: 'all' });
    expect(recorder.told).toEqual(['joined', 'joined 9', 'joined']);
    expect(primary.size).toBe(1);
  });

  it('a worker that reads nothing holds a limited number of messages, and nobody else up', () => {
    const cluster = new FakeCluster();
    new PrimaryGroups(cluster.asCluster);
    const [a, slow, c] = [cluster.fork(), cluster.fork(), cluster.fork()].map((worker) => worker.join());
    cluster.unread.add(2);
    const before = cluster.sent;
    for (let index = 0; index < 10_000; index++) a?.group.send({ index });
    expect(cluster.sent - before).toBeLessThanOrEqual(10_000 + 512);
    expect(c?.recorder.told.length).toBe(10_001);
    expect(slow?.recorder.told.length).toBe(2);
  });

  it('a worker that joins groups without end gets no more of them at some point', () => {
    const cluster = new FakeCluster();
    const primary = new PrimaryGroups(cluster.asCluster);
    const worker = cluster.fork();
    for (let index = 0; index < 5_000; index++) {
      worker.say({ evenkeel: 'group', group: `g${index}`, member: worker.id * MEMBERS_EACH, does: 'join' });
    }
    expect(primary.size).toBe(1_000);
    worker.exit();
    expect(primary.size).toBe(0);
  });
});

describe('a group of threads', () => {
  /** Threads of one process. */
  class Threads {
    readonly clock: FakeClock = new FakeClock();
    readonly #channels: Set<ThreadChannel> = new Set();
    readonly process: EventEmitter = new EventEmitter();

    join(thread: number): {
      readonly group: ThreadGroup;
      readonly recorder: Recorder;
      readonly channel: ThreadChannel;
    } {
      const channels = this.#channels;
      const channel: ThreadChannel = {
        onmessage: null,
        postMessage: (data) => {
          for (const other of [...channels]) if (other !== channel) other.onmessage?.({ data } as never);
        },
        close: () => channels.delete(channel),
      };
      channels.add(channel);
      const recorder = new Recorder();
      const number = memberNumber(thread);
      return {
        group: new ThreadGroup(number, this.clock, channel, this.process as never, recorder),
        recorder,
        channel,
      };
    }
  }

  it('knows after a moment who is in it, hears all and each, and who leaves', () => {
    const threads = new Threads();
    const [a, b, c] = [0, 1, 2].map((thread) => threads.join(thread));
    threads.clock.advance(100);
    a?.group.send({ hello: 1 });
    c?.group.send({ hello: 2 }, b?.group.self);
    b?.group.close();
    b?.group.close();
    expect(a?.recorder.told).toEqual(['came 1', 'came 2', 'joined 1 2', 'gone 1']);
    expect(b?.recorder.told).toEqual(['came 2', 'joined 0 2', '0 {"hello":1}', '2 {"hello":2}']);
    expect(c?.recorder.told).toEqual(['joined 0 1', '0 {"hello":1}', 'gone 1']);
    a?.group.close();
    c?.group.close();
    expect(threads.clock.timers).toBe(0);
  });

  it('one that was terminated is not there when it is asked who is', () => {
    const threads = new Threads();
    const [a, b] = [0, 1].map((thread) => threads.join(thread));
    threads.clock.advance(100);
    b?.channel.close();
    a?.group.join();
    threads.clock.advance(100);
    expect(a?.recorder.told.at(-1)).toBe('joined');
    a?.group.close();
    b?.group.close();
  });

  it('is left when the thread exits', () => {
    const threads = new Threads();
    const [a, b] = [threads.join(0), threads.join(1)];
    threads.process.emit('exit');
    expect(b.recorder.told).toEqual(['gone 0']);
    expect(threads.process.eventNames()).toEqual([]);
    expect(a.recorder.told.at(-1)).toBe('came 1');
  });

  it('what is no word of ours changes nothing', () => {
    const threads = new Threads();
    const { group, recorder, channel } = threads.join(0);
    for (const data of [
      undefined,
      null,
      'join',
      { from: 'a', does: 'join' },
      { from: 1 },
      { from: group.self, does: 'join' },
    ]) {
      channel.onmessage?.({ data } as never);
    }
    expect(recorder.told).toEqual([]);
    group.close();
  });
});
