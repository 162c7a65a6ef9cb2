import { createEndpoint } from 'evenkeel';
import { FakeClock, seededRng } from 'evenkeel/testing';
import { describe, expect, it } from 'vitest';
import type { LogPosition } from '../../../../src/adapter/kit/index.js';
import { objectionOf, positionOf, Server } from '../../../../src/adapter/redis/connection.js';
import { isLogInRefused, verdictOf } from '../../../../src/adapter/redis/outcome.js';

const inStep = 'role:slave\r\nmaster_link_status:up\r\n';

describe('one Redis replica', () => {
  const world = (
    isCluster = false,
    commandTimeoutMs?: number,
  ): {
    clock: FakeClock;
    replica: Server;
    answer: (text: string | Error) => Promise<void>;
    counts: { changed: number; cut: number; received: number; warned: string[]; positions: LogPosition[] };
  } => {
    const clock = new FakeClock();
    const counts = { changed: 0, cut: 0, received: 0, warned: [] as string[], positions: [] as LogPosition[] };
    let settle: ((text: string | Error) => void) | undefined;
    const replica = new Server({
      endpoint: createEndpoint({ address: '10.0.0.1', port: 6379 }),
      probeIntervalMs: 1_000,
      clock,
      rng: seededRng(1),
      changed: () => counts.changed++,
      learned: (position) => counts.positions.push(position),
      warned: ({ message }) => counts.warned.push(message),
      open: (_, ended) => ({
        client: {},
        connect: async () => {},
        info: (section) =>
          section === 'cluster'
            ? Promise.resolve(`# Cluster\r\ncluster_enabled:${isCluster ? 1 : 0}\r\n`)
            : new Promise((resolve, reject) => {
                settle = (text) => (typeof text === 'string' ? resolve(text) : reject(text));
              }),
        get received() {
          return counts.received;
        },
        commandTimeoutMs,
        busy: () => {},
        finish: () => ended(undefined),
        cut: () => {
          counts.cut++;
          settle?.(new Error('Connection is closed.'));
          ended(new Error('cut'));
        },
      }),
    });
    const answer = async (text: string | Error): Promise<void> => {
      settle?.(text);
      await new Promise((resolve) => setImmediate(resolve));
    };
    return { clock, replica, answer, counts };
  };
  const connected = async (
    text: string | Error = inStep,
    commandTimeoutMs?: number,
  ): Promise<ReturnType<typeof world>> => {
    const made = world(false, commandTimeoutMs);
    const connecting = made.replica.connect(new AbortController().signal);
    await new Promise((resolve) => setImmediate(resolve));
    await made.answer(text);
    await connecting;
    return made;
  };

  it('may be read from once it has reported its state', async () => {
    expect(world().replica.objection).toBeDefined();
    expect((await connected()).replica.objection).toBeUndefined();
    expect((await connected('role:master\r\n')).replica.objection).toContain('role:master');
  });

  it('is queried again and again', async () => {
    const { clock, replica, answer, counts } = await connected();
    clock.advance(1_200);
    await answer('role:slave\r\nmaster_link_status:down\r\n');
    expect(replica.objection).toContain('link');
    clock.advance(1_200);
    await answer(inStep);
    expect(replica.objection).toBeUndefined();
    expect(counts.changed).toBe(3);
  });

  it('gets no reads while it does not answer, and is cut in the end', async () => {
    const { clock, replica, answer, counts } = await connected();
    clock.advance(1_200);
    clock.advance(1_000);
    expect(replica.objection).toBe('it does not answer');
    await answer(inStep);
    expect(replica.objection).toBeUndefined();
    clock.advance(1_200);
    clock.advance(1_000);
    clock.advance(8_000);
    expect(counts.cut).toBe(0);
    clock.advance(1_000);
    expect(counts.cut).toBe(1);
    expect(await replica.closed).toBeInstanceOf(Error);
    await answer(inStep);
    expect(clock.timers).toBe(0);
  });

  it('does not count as dead while it sends other replies', async () => {
    const { clock, replica, answer, counts } = await connected();
    clock.advance(1_200);
    for (let second = 0; second < 30; second++) {
      if (second % 2 === 0) counts.received++;
      else {
        const read = { sentMs: clock.now(), unanswered: () => {} };
        replica.callBegins(read);
        replica.callEnds(read, true);
      }
      clock.advance(1_000);
      expect(replica.objection).toBeUndefined();
    }
    clock.advance(5_000);
    expect(replica.objection).toBe('it does not answer');
    counts.received++;
    clock.advance(9_000);
    expect(counts.cut).toBe(0);
    await answer(inStep);
    expect(replica.objection).toBeUndefined();
  });

  describe('with reads that it does not answer', () => {
    const begin = ({ clock, replica }: Awaited<ReturnType<typeof connected>>) => {
      const read = {
        sentMs: clock.now(),
        toldMs: [] as number[],
        unanswered: () => read.toldMs.push(clock.now() - read.sentMs),
        end: (isAnswered: boolean) => replica.callEnds(read, isAnswered),
      };
      replica.callBegins(read);
      return read;
    };

    it('has them moved after a second, and gets no more until it answers', async () => {
      const made = await connected();
      const { clock, replica, answer } = made;
      clock.advance(500);
      const first = begin(made);
      clock.advance(900);
      const second = begin(made);
      expect(replica.objection).toBeUndefined();
      clock.advance(100);
      expect(replica.objection).toBe('it does not answer');
      expect(first.toldMs).toEqual([1_000]);
      expect(second.toldMs).toEqual([100]);
      // The second had nowhere to go.
      first.end(false);
      clock.advance(1_000);
      expect(second.toldMs.length).toBeGreaterThan(1);
      second.end(true);
      await answer(inStep);
      expect(replica.objection).toBeUndefined();
    });

    it('keeps those that only take long: replies arrive in order', async () => {
      const made = await connected();
      const { clock, counts, answer } = made;
      const read = begin(made);
      for (let n = 0; n < 50; n++) {
        clock.advance(100);
        if (n % 5 === 0) counts.received++;
        if (n % 10 === 0) await answer(inStep);
      }
      expect(read.toldMs).toEqual([]);
    });

    it('has them moved within the time a command may take', async () => {
      const made = await connected(inStep, 300);
      const read = begin(made);
      made.clock.advance(225);
      expect(read.toldMs[0]).toBeLessThanOrEqual(225);
      read.end(false);
    });

    it('does not take an abandoned read for a reply', async () => {
      const made = await connected();
      const { clock, replica } = made;
      for (let n = 0; n < 12; n++) {
        const read = begin(made);
        clock.advance(200);
        read.end(false);
      }
      const last = begin(made);
      clock.advance(1_000);
      expect(replica.objection).toBe('it does not answer');
      last.end(true);
    });

    it('is not blamed when our own event loop was blocked', async () => {
      const made = await connected();
      const read = begin(made);
      await made.clock.stall(5_000);
      read.end(true);
      made.clock.advance(1_000);
      expect(read.toldMs).toEqual([]);
    });

    it('has no timer once they are answered', async () => {
      const made = await connected();
      const { clock, replica } = made;
      begin(made).end(true);
      await replica.close(AbortSignal.abort());
      expect(clock.timers).toBe(0);
    });
  });

  it('is closing once it is replaced or lost', async () => {
    const replaced = (await connected()).replica;
    expect(replaced.isClosing).toBe(false);
    void replaced.close();
    expect(replaced.isClosing).toBe(true);
    const lost = (await connected()).replica;
    lost.gone(new Error('Connection is closed.'));
    expect(lost.isClosing).toBe(true);
  });

  it('counts as a replica where INFO is forbidden, with a warning', async () => {
    const { replica, counts } = await connected(new Error('NOPERM this user has no permissions'));
    expect(replica.objection).toBeUndefined();
    expect(counts.warned).toEqual([expect.stringContaining('INFO')]);
  });

  it('is refused if it is a node of a cluster', async () => {
    const { replica, answer } = world(true);
    const refused = expect(replica.connect(new AbortController().signal)).rejects.toThrow(
      '10.0.0.1:6379 is a node of a Redis Cluster',
    );
    await new Promise((resolve) => setImmediate(resolve));
    await answer(inStep);
    await refused;
  });

  it('gets no more reads once it answered MOVED', async () => {
    const { clock, replica, answer } = await connected();
    replica.suspected(new Error('MOVED 866 10.0.0.2:6379'));
    clock.advance(1_200);
    await answer(inStep);
    expect(replica.objection).toContain('Cluster');
  });

  it('reports how much of the log it has while it may be read from', async () => {
    const { clock, counts, answer } = await connected(`${inStep}slave_repl_offset:7\r\nmaster_replid:abc\r\n`);
    expect(counts.positions).toMatchObject([{ history: 'abc', offset: 7 }]);
    clock.advance(1_200);
    await answer('role:slave\r\nmaster_link_status:down\r\nslave_repl_offset:7\r\nmaster_replid:abc\r\n');
    expect(counts.positions).toHaveLength(1);
  });

  it('gets no reads after a refusal until it has been queried again', async () => {
    const { clock, replica, answer } = await connected();
    replica.suspected(new Error('LOADING Redis is loading the dataset in memory'));
    expect(replica.objection).toContain('LOADING');
    clock.advance(1_200);
    await answer(inStep);
    expect(replica.objection).toBeUndefined();
  });
});

describe('a reply of Redis', () => {
  it.each([
    [inStep, undefined],
    ['role:slave\r\nmaster_link_status:down\r\n', 'link'],
    ['role:slave\r\nmaster_link_status:down\r\nmaster_sync_in_progress:1\r\n', 'copying'],
    ['role:slave\r\nmaster_link_status:down\r\nmaster_sync_in_progress:0\r\n', 'link'],
    ['role:master\r\nconnected_slaves:1\r\n', 'role:master'],
    ['role:sentinel\r\n', 'role:sentinel'],
    ['', 'no replica'],
  ])('%j', (info, objection) => {
    if (objection === undefined) expect(objectionOf(info)).toBeUndefined();
    else expect(objectionOf(info)).toContain(objection);
  });

  it('shows how far the replica has got', () => {
    const history = 'master_replid:3bf7\r\nmaster_replid2:0000\r\n';
    expect(positionOf(`role:master\r\n${history}master_repl_offset:1400\r\n`)).toEqual({
      history: '3bf7',
      offset: 1_400,
    });
    const slave = `${inStep}master_last_io_seconds_ago:3\r\nslave_read_repl_offset:90\r\nslave_repl_offset:70\r\n${history}`;
    expect(positionOf(`${slave}master_repl_offset:70\r\n`)).toEqual({ history: '3bf7', offset: 70, silentMs: 3_000 });
    expect(positionOf(slave.replace(':3', ':-1'))).toEqual({ history: '3bf7', offset: 70 });
    expect(positionOf(inStep)).toBeUndefined();
  });

  const reply = (message: string): Error => Object.assign(new Error(message), { name: 'ReplyError' });
  it.each([
    [reply('WRONGTYPE Operation against a key'), undefined, undefined],
    [reply("READONLY You can't write against a read only replica."), undefined, undefined],
    [reply('LOADING Redis is loading the dataset in memory'), 'failure', 'not-started'],
    [reply('MASTERDOWN Link with MASTER is down'), 'failure', 'not-started'],
    [reply('BUSY Redis is busy running a script'), 'failure', 'not-started'],
    [reply('NOAUTH Authentication required.'), 'failure', 'not-started'],
    [reply('MOVED 866 10.0.0.2:6379'), 'failure', 'not-started'],
    [reply('CLUSTERDOWN The cluster is down'), 'failure', 'not-started'],
    [reply("NOPERM this user has no permissions to run the 'get' command"), undefined, undefined],
    [new Error('Connection is closed.'), 'failure', undefined],
    [Object.assign(new Error('read'), { code: 'ECONNRESET' }), 'failure', undefined],
    [Object.assign(new Error('aborted'), { name: 'AbortError' }), 'failure', undefined],
    [new Error("Stream isn't writeable and enableOfflineQueue options is false"), 'not-started', undefined],
    [new Error('Command timed out'), 'failure', undefined],
    [new Error('a transformer threw'), undefined, undefined],
    [undefined, undefined, undefined],
  ])('%s', (error, kind, repeatAs) => {
    const verdict = verdictOf(error);
    expect(verdict?.outcome.kind).toBe(kind);
    expect(verdict?.repeatAs?.kind).toBe(repeatAs);
  });

  it('distinguishes a refused log-in from other errors', () => {
    expect(isLogInRefused(reply('WRONGPASS invalid username-password pair'))).toBe(true);
    expect(isLogInRefused(reply('NOAUTH Authentication required.'))).toBe(true);
    expect(isLogInRefused(new Error('connect ECONNREFUSED'))).toBe(false);
    expect(isLogInRefused(undefined)).toBe(false);
  });
});
