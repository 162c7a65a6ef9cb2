import { beforeEach, describe, expect, it } from 'vitest';
import { readOnlyOutcome } from '../../../../src/adapter/mysql2/outcome.js';
import { replicaLag, type ServerCheck, WritableServers } from '../../../../src/adapter/mysql2/roles.js';
import {
  createEndpoint,
  type Endpoint,
  EndpointSet,
  type Observer,
  outcomes,
  type Stage,
} from '../../../../src/index.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';

const endpoints = ['10.0.0.1', '10.0.0.2'].map((address) => createEndpoint({ address, port: 3306 }));

/** A stage over two servers, and what they answer. */
class Fixture {
  readonly clock = new FakeClock();
  readonly questions: string[] = [];
  readonly told: string[] = [];
  /** What the next question to a server is answered with; a function may be a long time about it. */
  answers: Record<string, (sql: string) => Promise<readonly Record<string, unknown>[]>> = {};
  /** Servers whose sessions were cut, and for which others. */
  readonly cut: string[] = [];
  /** Servers whose waiting calls were sent elsewhere. */
  readonly handedBack: string[] = [];
  invalidations = 0;
  readonly check: ServerCheck;
  readonly stage: Stage;
  readonly trackers;
  /** Functions that close the connections of each server. */
  readonly #close: (() => void)[] = [];

  constructor(check: ServerCheck) {
    const observer: Observer = {
      ejected: ({ endpoint, reason }) => this.told.push(`${endpoint.address} ${reason}`),
      restored: ({ endpoint }) => this.told.push(`${endpoint.address} is back`),
      warned: ({ message }) => this.told.push(message),
    };
    this.check = check;
    this.stage = check.stage({
      clock: this.clock,
      rng: { next: () => 0.5 },
      observer,
      invalidate: () => {
        this.invalidations++;
      },
      probe: () => Promise.reject(new Error('not asked')),
    });
    this.trackers = endpoints.map((endpoint) => this.stage.track?.(endpoint));
  }

  get weights(): number[] {
    return this.stage.apply(EndpointSet.of(1, endpoints)).entries.map(({ weight }) => weight);
  }

  /** Opens a connection to a server, as the transport does it. Rejects if the server does not become ready. */
  async open(index: number, signal: AbortSignal = new AbortController().signal): Promise<void> {
    const endpoint = endpoints[index] as Endpoint;
    const { address } = endpoint;
    const closed = new Promise<undefined>((resolve) => {
      this.#close[index] = () => resolve(undefined);
    });
    const runOwn = (sql: unknown) => {
      this.questions.push(`${address} ${sql}`);
      return this.answers[address]?.(String(sql)) ?? Promise.resolve([]);
    };
    const handBack = () => void this.handedBack.push(address);
    const supersede = (why?: string) => void this.cut.push(`${address} for ${/by (.*):/.exec(String(why))?.[1]}`);
    await this.check.connected({ endpoint, closed, runOwn, handBack, supersede, reinstate: () => {} }, signal);
  }

  /** The connection to a server is lost. */
  async lose(index: number): Promise<void> {
    this.#close[index]?.();
    await this.clock.advanceAsync(0);
  }

  /** A server leaves the set, and its connection ends. */
  async remove(index: number): Promise<void> {
    this.stage.apply(
      EndpointSet.of(
        2,
        endpoints.filter((_, other) => other !== index),
      ),
    );
    await this.lose(index);
  }

  async connect(): Promise<void> {
    for (const index of endpoints.keys()) await this.open(index);
  }
}

const says = (readOnly: unknown) => () => Promise.resolve([{ read_only: readOnly, innodb_read_only: 0 }]);

describe('servers that have to take writes', () => {
  let fixture: Fixture;
  beforeEach(() => {
    fixture = new Fixture(new WritableServers());
  });

  it.each([
    [0, 1],
    ['0', 1],
    ['OFF', 1],
    [1, 0],
    ['1', 0],
    ['ON', 0],
    ['NO_LOCK_NO_ADMIN', 0],
  ])('that report read_only as %s get weight %i', async (readOnly, weight) => {
    fixture.answers = { '10.0.0.1': says(readOnly), '10.0.0.2': says(0) };
    await fixture.connect();
    expect(fixture.weights).toEqual([weight, 1]);
  });

  it('are not ready before they have answered, however late they do', async () => {
    let answer: (rows: Record<string, unknown>[]) => void = () => {};
    fixture.answers['10.0.0.1'] = () =>
      new Promise((resolve) => {
        answer = resolve;
      });
    let isReady = false;
    const opened = fixture.open(0).then(() => {
      isReady = true;
    });
    await fixture.clock.advanceAsync(999);
    expect(isReady).toBe(false);
    answer([{ read_only: 1 }]);
    await opened;
    expect(fixture.weights).toEqual([0, 1]);
  });

  it('that do not answer the first query are not connected to, and are queried again with the next connection', async () => {
    fixture.answers['10.0.0.1'] = () => new Promise(() => {});
    const opened = fixture.open(0);
    const refused = expect(opened).rejects.toThrow('it did not say what it is: no answer within 1000 ms');
    await fixture.clock.advanceAsync(1_000);
    await refused;
    fixture.answers['10.0.0.1'] = says(1);
    await fixture.open(0);
    expect(fixture.weights).toEqual([0, 1]);
  });

  it.each([1205, 1317, 1969, 3024])(
    'that interrupt the first query with error %i are not connected to',
    async (errno) => {
      const error = Object.assign(new Error('Query execution was interrupted'), { errno, sqlState: '70100' });
      fixture.answers['10.0.0.1'] = () => Promise.reject(error);
      await expect(fixture.open(0)).rejects.toThrow('it did not say what it is: Query execution was interrupted');
    },
  );

  it('that do not know the query count as taking writes', async () => {
    const error = Object.assign(new Error('Unknown system variable'), { errno: 1193, sqlState: 'HY000' });
    fixture.answers['10.0.0.1'] = () => Promise.reject(error);
    await fixture.open(0);
    expect(fixture.weights[0]).toBe(1);
  });

  it('abort their query with the attempt to connect', async () => {
    fixture.answers['10.0.0.1'] = () => new Promise(() => {});
    const attempt = new AbortController();
    const opened = fixture.open(0, attempt.signal);
    attempt.abort(new Error('too late'));
    await expect(opened).rejects.toThrow('too late');
    expect(fixture.clock.timers).toBe(0);
  });

  it('are queried every second, since one that gets only reads would never show that it has lost its role', async () => {
    fixture.answers = { '10.0.0.1': says(0), '10.0.0.2': says(0) };
    await fixture.connect();
    fixture.answers['10.0.0.1'] = says(1);
    expect(fixture.weights).toEqual([1, 1]);
    await fixture.clock.advanceAsync(1_000);
    expect(fixture.weights).toEqual([0, 1]);
    await fixture.clock.advanceAsync(9_000);
    expect(fixture.questions).toHaveLength(2 + 2 * 10);
  });

  it('that have lost their role make no call wait', async () => {
    fixture.answers = { '10.0.0.1': says(0), '10.0.0.2': says(0) };
    await fixture.connect();
    fixture.weights;
    expect(fixture.handedBack).toEqual([]);
    fixture.answers['10.0.0.1'] = says(1);
    await fixture.clock.advanceAsync(1_000);
    fixture.weights;
    expect(fixture.handedBack).toEqual(['10.0.0.1']);
  });

  it('are judged by a refused write rather than by an answer that was already on its way', async () => {
    let answer: (rows: Record<string, unknown>[]) => void = () => {};
    fixture.answers = { '10.0.0.1': says(0), '10.0.0.2': says(0) };
    await fixture.connect();
    fixture.answers['10.0.0.1'] = () =>
      new Promise((resolve) => {
        answer = resolve;
      });
    await fixture.clock.advanceAsync(1_000);
    fixture.trackers[0]?.completed?.(readOnlyOutcome, 5, 1, 0);
    answer([{ read_only: 0 }]);
    await fixture.clock.advanceAsync(0);
    expect(fixture.weights).toEqual([0, 1]);
    expect(fixture.cut).toEqual([]);
  });

  it('that refuse a write stand by at once, and are queried every second until they take writes', async () => {
    fixture.answers = { '10.0.0.1': says(0), '10.0.0.2': says(0) };
    await fixture.connect();
    fixture.trackers[0]?.completed?.(readOnlyOutcome, 5, 1, 0);
    expect(fixture.weights).toEqual([0, 1]);
    expect(fixture.invalidations).toBeGreaterThan(0);
    fixture.answers['10.0.0.1'] = says(1);
    await fixture.clock.advanceAsync(3_000);
    expect(fixture.questions).toHaveLength(2 + 2 * 3);
    expect(fixture.weights).toEqual([0, 1]);
    fixture.answers['10.0.0.1'] = says(0);
    await fixture.clock.advanceAsync(1_000);
    expect(fixture.weights).toEqual([1, 1]);
    expect(fixture.told).toEqual([
      '10.0.0.1 it refused a statement since it is read-only',
      '10.0.0.1 it is read-only',
      '10.0.0.1 is back',
    ]);
  });

  it('stand by even if all of them do', async () => {
    await fixture.connect();
    for (const tracker of fixture.trackers) tracker?.completed?.(readOnlyOutcome, 5, 1, 0);
    expect(fixture.weights).toEqual([0, 0]);
  });

  it('are not affected by other outcomes', async () => {
    await fixture.connect();
    for (const outcome of Object.values(outcomes)) fixture.trackers[0]?.completed?.(outcome, 5, 1, 0);
    expect(fixture.weights).toEqual([1, 1]);
  });

  it('that refuse the query are assumed to take writes, and that is reported once', async () => {
    const refusal = Object.assign(new Error('no permission'), { errno: 1227, sqlState: '42000' });
    fixture.answers['10.0.0.1'] = () => Promise.reject(refusal);
    await fixture.connect();
    await fixture.connect();
    expect(fixture.weights).toEqual([1, 1]);
    expect(fixture.told).toEqual(['a server was not asked: no permission']);
  });

  it('that do not answer in time, or only after they were lost, stay as they are', async () => {
    let answer: (rows: Record<string, unknown>[]) => void = () => {};
    fixture.answers['10.0.0.1'] = () =>
      new Promise((resolve) => {
        answer = resolve;
      });
    const silent = fixture.answers['10.0.0.1'];
    fixture.answers['10.0.0.1'] = says(0);
    await fixture.connect();
    fixture.answers['10.0.0.1'] = silent;
    await fixture.clock.advanceAsync(2_000);
    expect(fixture.told).toEqual(['a server was not asked: no answer within 1000 ms']);
    await fixture.clock.advanceAsync(1_000);
    await fixture.lose(0);
    answer([{ read_only: 1 }]);
    await fixture.clock.advanceAsync(0);
    expect(fixture.weights).toEqual([1, 1]);
    fixture.stage.close?.();
    await fixture.clock.advanceAsync(2_000);
    expect(fixture.clock.timers).toBe(0);
  });

  it('are forgotten when they are gone', async () => {
    fixture.answers['10.0.0.1'] = says(1);
    await fixture.connect();
    expect(fixture.weights).toEqual([0, 1]);
    expect(fixture.clock.timers).toBe(2);
    await fixture.remove(0);
    expect(fixture.weights).toEqual([1, 1]);
    expect(fixture.clock.timers).toBe(1);
  });
});

describe('a primary whose replica takes over', () => {
  let fixture: Fixture;
  /** A server's answers to both questions. */
  const is = (hostname: string, readOnly: 'ON' | 'OFF', more: Record<string, string> = {}) => {
    return (sql: string) => {
      if (sql.startsWith('SELECT')) return Promise.resolve([{ read_only: readOnly === 'ON' ? 1 : 0 }]);
      const variables = Object.entries({ server_id: '1', hostname, read_only: readOnly, ...more });
      return Promise.resolve(variables.map(([Variable_name, Value]) => ({ Variable_name, Value })));
    };
  };
  const silent = () => new Promise<never>(() => {});
  beforeEach(async () => {
    fixture = new Fixture(new WritableServers());
    fixture.answers = { '10.0.0.1': is('a', 'OFF'), '10.0.0.2': is('b', 'ON') };
    await fixture.connect();
    expect(fixture.weights).toEqual([1, 0]);
  });
  const promote = async (more: Record<string, string> = {}): Promise<void> => {
    fixture.answers['10.0.0.2'] = is('b', 'OFF', more);
    await fixture.clock.advanceAsync(1_000);
  };

  it('is superseded if it does not answer: it gets no statement from then on, and its sessions are cut', async () => {
    fixture.answers['10.0.0.1'] = silent;
    await promote();
    expect(fixture.weights).toEqual([0, 1]);
    expect(fixture.cut).toEqual([]);
    await fixture.clock.advanceAsync(1_000);
    expect(fixture.weights).toEqual([0, 1]);
    expect(fixture.cut).toEqual(['10.0.0.1 for 10.0.0.2']);
    expect(fixture.told.at(-1)).toBe('10.0.0.1 superseded by 10.0.0.2:3306');
  });

  it('is superseded if it still takes writes, until it was read-only or the other is no longer a primary', async () => {
    await promote();
    expect(fixture.weights).toEqual([0, 1]);
    expect(fixture.cut).toEqual(['10.0.0.1 for 10.0.0.2']);
    await fixture.clock.advanceAsync(60_000);
    await fixture.lose(0);
    await fixture.open(0);
    await fixture.clock.advanceAsync(60_000);
    expect(fixture.weights).toEqual([0, 1]);
    fixture.answers['10.0.0.2'] = is('b', 'ON');
    fixture.trackers[1]?.completed?.(readOnlyOutcome, 5, 1, 0);
    await fixture.clock.advanceAsync(1_000);
    expect(fixture.weights).toEqual([1, 0]);
    expect(fixture.cut).toHaveLength(1);
  });

  it('may take over again once it has been a replica of the other', async () => {
    await promote();
    fixture.answers['10.0.0.1'] = is('a', 'ON');
    await fixture.clock.advanceAsync(1_000);
    expect(fixture.weights).toEqual([0, 1]);
    fixture.answers['10.0.0.1'] = is('a', 'OFF');
    await fixture.clock.advanceAsync(1_000);
    expect(fixture.weights).toEqual([1, 0]);
    expect(fixture.cut).toEqual(['10.0.0.1 for 10.0.0.2', '10.0.0.2 for 10.0.0.1']);
  });

  it('may be used again when the other one is gone', async () => {
    await promote();
    await fixture.remove(1);
    await fixture.clock.advanceAsync(1_000);
    expect(fixture.weights[0]).toBe(1);
  });

  it('is superseded even if it was never reached before', async () => {
    const late = new Fixture(new WritableServers());
    late.answers = { '10.0.0.2': is('b', 'ON') };
    late.weights;
    await late.open(1);
    late.answers['10.0.0.2'] = is('b', 'OFF');
    await late.clock.advanceAsync(1_000);
    late.answers['10.0.0.1'] = is('a', 'OFF');
    await late.open(0);
    expect(late.weights).toEqual([0, 1]);
    expect(late.told.at(-1)).toBe('10.0.0.1 superseded by 10.0.0.2:3306');
  });

  it('keeps its sessions if it is already read-only', async () => {
    fixture.answers['10.0.0.1'] = is('a', 'ON');
    await promote();
    expect(fixture.weights).toEqual([0, 1]);
    expect(fixture.cut).toEqual([]);
  });

  it('stands by as soon as it identifies itself as read-only, though all its connections are in use', async () => {
    fixture.answers['10.0.0.1'] = (sql) => (sql.startsWith('SELECT') ? silent() : is('a', 'ON')(sql));
    await promote();
    await fixture.clock.advanceAsync(0);
    expect(fixture.weights).toEqual([0, 1]);
    expect(fixture.told).toContain('10.0.0.1 it is read-only');
  });

  it.each([
    ['a Galera cluster', { wsrep_on: 'ON' }],
    ['a group with several primaries', { group_replication_single_primary_mode: 'OFF' }],
    ['a server of which both are proxies', { hostname: 'a' }],
  ])('stays in use beside the other in %s', async (_what, more) => {
    await promote(more);
    expect(fixture.weights).toEqual([1, 1]);
    expect(fixture.cut).toEqual([]);
  });

  it('stays in use if the other has lost its role again by the time it says who it is', async () => {
    fixture.answers['10.0.0.2'] = (sql) =>
      sql.startsWith('SELECT') ? Promise.resolve([{ read_only: 0 }]) : is('b', 'ON')(sql);
    await fixture.clock.advanceAsync(1_000);
    expect(fixture.cut).toEqual([]);
    expect(fixture.weights[0]).toBe(1);
  });

  it('that is just being connected to is not used before it has answered', async () => {
    await fixture.lose(0);
    let answer: () => void = () => {};
    fixture.answers['10.0.0.1'] = (sql) =>
      sql.startsWith('SELECT')
        ? new Promise((resolve) => {
            answer = () => resolve([{ read_only: 1 }]);
          })
        : is('a', 'ON')(sql);
    await fixture.clock.advanceAsync(500);
    const opened = fixture.open(0);
    fixture.answers['10.0.0.2'] = is('b', 'OFF');
    await fixture.clock.advanceAsync(500);
    expect(fixture.weights).toEqual([0, 1]);
    answer();
    await opened;
    expect(fixture.weights).toEqual([0, 1]);
    expect(fixture.cut).toEqual([]);
  });

  it('stays in use if the other does not say who it is', async () => {
    fixture.answers['10.0.0.2'] = (sql) => (sql.startsWith('SELECT') ? Promise.resolve([{ read_only: 0 }]) : silent());
    await fixture.clock.advanceAsync(2_000);
    expect(fixture.weights).toEqual([1, 1]);
    expect(fixture.cut).toEqual([]);
  });
});

describe('replicas with a maximum lag', () => {
  const fixture = (options: object): Fixture => new Fixture(replicaLag({ maxLagMs: 5_000, ...options }) as ServerCheck);

  it.each([
    ['MySQL', { Seconds_Behind_Source: 6 }, 0],
    ['MariaDB', { Seconds_Behind_Master: 6 }, 0],
    ['one in time', { Seconds_Behind_Master: 5 }, 1],
    ['one that stands still', { Seconds_Behind_Source: null }, 0],
  ])('%s reports it in its status', async (_what, row, weight) => {
    const replicas = fixture({});
    replicas.answers['10.0.0.1'] = () => Promise.resolve([row]);
    await replicas.connect();
    expect(replicas.weights).toEqual([weight, 1]);
  });

  it('are queried with the older statement where the newer is unknown', async () => {
    const replicas = fixture({});
    replicas.answers['10.0.0.1'] = () => {
      const isNewer = replicas.questions.at(-1)?.includes('REPLICA') === true;
      return isNewer
        ? Promise.reject(Object.assign(new Error('syntax'), { errno: 1064 }))
        : Promise.resolve([{ Seconds_Behind_Master: 60 }]);
    };
    await replicas.connect();
    expect(replicas.weights).toEqual([0, 1]);
  });

  it('are queried again and again; they are compared only with connected ones', async () => {
    const replicas = fixture({ probeIntervalMs: 100, lagProbe: () => Promise.resolve(60_000) });
    await replicas.connect();
    // All are: then all are used.
    expect(replicas.weights).toEqual([1, 1]);
    let lagMs: number | undefined = 60_000;
    const one = fixture({
      probeIntervalMs: 100,
      lagProbe: (_ask: unknown, { address }: { address: string }) =>
        Promise.resolve(address === '10.0.0.1' ? lagMs : 0),
    });
    await one.connect();
    expect(one.weights).toEqual([0, 1]);
    await one.lose(1);
    expect(one.weights).toEqual([1, 1]);
    await one.open(1);
    lagMs = undefined;
    await one.clock.advanceAsync(100);
    expect(one.weights).toEqual([0, 1]);
    lagMs = 5_000;
    await one.clock.advanceAsync(100);
    expect(one.weights).toEqual([1, 1]);
  });

  it('that do not answer within probeTimeoutMs stay as they are, and that is reported', async () => {
    const replicas = fixture({ probeTimeoutMs: 200 });
    replicas.answers['10.0.0.1'] = () => Promise.resolve([{ Seconds_Behind_Source: 60 }]);
    await replicas.connect();
    expect(replicas.weights).toEqual([0, 1]);
    const before = replicas.told.length;
    replicas.answers['10.0.0.1'] = () => new Promise(() => {});
    await replicas.clock.advanceAsync(1_199);
    expect(replicas.told.slice(before)).toEqual([]);
    await replicas.clock.advanceAsync(1);
    expect(replicas.told.slice(before)).toEqual(['a server was not asked: no answer within 200 ms']);
    expect(replicas.weights).toEqual([0, 1]);
  });

  it('whose probe returns something else stay as they are, and that is reported', async () => {
    const replicas = fixture({ lagProbe: () => Promise.resolve('much') });
    await replicas.connect();
    expect(replicas.weights).toEqual([1, 1]);
    expect(replicas.told).toEqual(['a server was not asked: lagProbe must return a number of ms, or undefined']);
  });
});
