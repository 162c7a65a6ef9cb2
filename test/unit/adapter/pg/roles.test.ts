import { beforeEach, describe, expect, it } from 'vitest';
import type { PgServer } from '../../../../src/adapter/pg/connection.js';
import type { Role } from '../../../../src/adapter/pg/options.js';
import { ServerRoles } from '../../../../src/adapter/pg/roles.js';
import { createEndpoint, EndpointSet, type Observer, type Stage } from '../../../../src/index.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';

type Row = readonly (string | null)[];

const primary = ({ timeline = '00000001', log = 1_000, started = '1', readOnly = 'off' } = {}): Row => [
  'false',
  readOnly,
  timeline,
  String(log),
  null,
  null,
  started,
];
const standby = ({
  known = 1_000,
  replayed = known,
  commitAge = '0',
}: {
  readonly known?: number;
  readonly replayed?: number;
  readonly commitAge?: string;
} = {}): Row => ['true', 'on', '', String(known), String(replayed), commitAge, '9'];

/** A connection to a server that answers what it is told to. */
class FakeServer {
  readonly endpoint;
  asked = 0;
  readonly closed: Promise<void>;
  close: () => void = () => {};
  answer: (text: string) => Promise<Row>;
  isSuperseded = false;
  cuts = 0;
  handBacks = 0;

  constructor(address: string, row: Row) {
    this.endpoint = createEndpoint({ address, port: 5432 });
    this.answer = async () => row;
    this.closed = new Promise((resolve) => {
      this.close = resolve;
    });
  }

  supersede(): void {
    if (!this.isSuperseded) this.cuts++;
    this.isSuperseded = true;
  }

  reinstate(): void {
    this.isSuperseded = false;
  }

  handBack(): void {
    this.handBacks++;
  }

  says(row: Row): void {
    this.answer = async () => row;
  }

  async runOwn({ text }: { readonly text: string }, signal: AbortSignal): Promise<{ rows: Row[] }> {
    this.asked++;
    const late = new Promise<never>((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
    return { rows: [await Promise.race([this.answer(text), late])] };
  }
}

class Fixture {
  readonly clock = new FakeClock();
  readonly told: string[] = [];
  readonly warnings: string[] = [];
  invalidations = 0;
  readonly roles: ServerRoles;
  readonly stage: Stage;
  readonly servers: readonly FakeServer[];

  constructor(role: Role, rows: readonly Row[], maxLagMs = Number.POSITIVE_INFINITY) {
    const rng = { next: () => 0.5 };
    const { clock } = this;
    const settings = { role, maxLagMs, probeIntervalMs: 1_000 };
    this.roles = new ServerRoles({
      settings,
      clock,
      warned: (message, error) => this.warnings.push(`${message}: ${error.message}`),
    });
    const observer: Observer = {
      ejected: ({ endpoint, reason }) => this.told.push(`${endpoint.address} ${reason}`),
      restored: ({ endpoint }) => this.told.push(`${endpoint.address} is back`),
    };
    const invalidate = (): void => {
      this.invalidations++;
    };
    this.stage = this.roles.stage({ clock, rng, observer, invalidate, probe: () => Promise.resolve(true) } as never);
    this.servers = rows.map((row, index) => new FakeServer(`10.0.0.${index + 1}`, row));
  }

  at(index: number): FakeServer {
    return this.servers[index] as FakeServer;
  }

  async connect(server: FakeServer): Promise<void> {
    await this.roles.connected(server as unknown as PgServer, new AbortController().signal);
  }

  async connectAll(): Promise<void> {
    for (const server of this.servers) await this.connect(server);
    this.weights;
  }

  /** As the balancer does it once something changed. */
  get weights(): number[] {
    const endpoints = this.servers.map(({ endpoint }) => endpoint);
    return this.stage.apply(EndpointSet.of(1, endpoints)).entries.map(({ weight }) => weight);
  }

  async pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 50) {
      await this.clock.advanceAsync(50);
      this.weights;
    }
  }
}

describe('roles of servers', () => {
  it.each([
    ['any', [1, 1, 1]],
    ['primary', [1, 0, 0]],
    ['replica', [0, 1, 1]],
    ['prefer-replica', [0, 1, 1]],
  ] as const)('%s', async (role, weights) => {
    const fixture = new Fixture(role, [primary(), standby(), standby()]);
    await fixture.connectAll();
    expect(fixture.weights).toEqual(weights);
  });

  describe('a primary that is set read-only', () => {
    const readOnly = (more = {}): Row => primary({ readOnly: 'on', ...more });

    it('is used while no server takes writes, and gives its own error for them', async () => {
      const fixture = new Fixture('primary', [primary(), standby()]);
      await fixture.connectAll();
      fixture.at(0).says(readOnly());
      await fixture.pass(1_500);
      expect(fixture.weights).toEqual([1, 0]);
      expect(fixture.roles.isUsable(fixture.at(0).endpoint)).toBe(true);
      fixture.at(0).says(primary());
      await fixture.pass(1_500);
      expect(fixture.weights).toEqual([1, 0]);
      expect(fixture.told).toEqual(['10.0.0.2 it is a standby']);
    });

    it('is not used once another server takes writes', async () => {
      const fixture = new Fixture('primary', [readOnly(), standby()]);
      await fixture.connectAll();
      fixture.at(1).says(primary({ timeline: '00000002', started: '2' }));
      await fixture.pass(1_500);
      expect(fixture.weights).toEqual([0, 1]);
    });

    it('is not used before every server of the set has said what it is, nor when one is lost', async () => {
      const fixture = new Fixture('primary', [readOnly(), standby()]);
      fixture.weights;
      await fixture.connect(fixture.at(0));
      expect(fixture.weights).toEqual([0, 1]);
      await fixture.connect(fixture.at(1));
      expect(fixture.weights).toEqual([1, 0]);
      fixture.at(1).close();
      await fixture.pass(50);
      expect(fixture.weights).toEqual([0, 1]);
    });

    it('is not used if there are two of them, unless one was superseded, or both are one server', async () => {
      const cases: readonly [readonly Row[], readonly number[]][] = [
        [
          [readOnly({ started: '1' }), readOnly({ started: '2' })],
          [0, 0],
        ],
        [
          [readOnly({ started: '1' }), readOnly({ started: '2', timeline: '00000002' })],
          [0, 1],
        ],
        [
          [readOnly({ started: '1' }), readOnly({ started: '1' })],
          [1, 1],
        ],
      ];
      for (const [rows, weights] of cases) {
        const fixture = new Fixture('primary', rows);
        await fixture.connectAll();
        expect(fixture.weights).toEqual(weights);
      }
    });

    it.each([
      ['replica', [0, 1]],
      ['prefer-replica', [0, 1]],
    ] as const)('changes nothing for %s', async (role, weights) => {
      const fixture = new Fixture(role, [readOnly(), standby()]);
      await fixture.connectAll();
      expect(fixture.weights).toEqual(weights);
    });
  });

  describe('several servers that take writes', () => {
    it.each(['primary', 'prefer-replica'] as const)('%s: only the one with the most log is used', async (role) => {
      const rows = [primary({ log: 900, started: '1' }), primary({ log: 1_000, started: '2' })];
      const fixture = new Fixture(role, rows);
      await fixture.connectAll();
      expect(fixture.weights).toEqual([0, 1]);
      expect(fixture.told.at(-1)).toBe('10.0.0.1 another server also takes writes, and gets them');
      // Whatever the order in which a client gets to know them.
      const other = new Fixture(role, rows);
      for (const server of [...other.servers].reverse()) await other.connect(server);
      expect(other.weights).toEqual([0, 1]);
    });

    it('with the same log: the first by name is used', async () => {
      const rows = [primary({ started: '1' }), primary({ started: '2' })];
      const fixture = new Fixture('primary', rows);
      for (const server of [...fixture.servers].reverse()) await fixture.connect(server);
      expect(fixture.weights).toEqual([1, 0]);
    });

    it('when one goes or turns read-only: the other is used at once', async () => {
      const rows = [primary({ log: 2_000, started: '1' }), primary({ started: '2' })];
      const fixture = new Fixture('primary', rows);
      await fixture.connectAll();
      expect(fixture.weights).toEqual([1, 0]);
      fixture.at(0).says(primary({ log: 2_000, started: '1', readOnly: 'on' }));
      await fixture.pass(1_000);
      expect(fixture.weights).toEqual([0, 1]);
      fixture.at(0).says(primary({ log: 2_000, started: '1' }));
      await fixture.pass(1_000);
      expect(fixture.weights).toEqual([1, 0]);
      fixture.at(0).close();
      await fixture.pass(50);
      // Not connected: it keeps its weight, and the pool leaves it out.
      expect(fixture.weights).toEqual([1, 1]);
      expect(fixture.roles.isUsable(fixture.at(0).endpoint)).toBe(false);
      expect(fixture.roles.isUsable(fixture.at(1).endpoint)).toBe(true);
    });

    it('one was promoted last: it is used, however little log it has', async () => {
      const rows = [primary({ log: 2_000, started: '1' }), primary({ timeline: '00000002', log: 100, started: '2' })];
      const fixture = new Fixture('primary', rows);
      await fixture.connectAll();
      expect(fixture.weights).toEqual([0, 1]);
      expect(fixture.told.at(-1)).toBe('10.0.0.1 another server was promoted since');
    });

    it('that are proxies of one server: all are used', async () => {
      const rows = [primary({ log: 900, started: '7.5' }), primary({ log: 1_000, started: '7.5' })];
      const fixture = new Fixture('primary', rows);
      await fixture.connectAll();
      expect(fixture.weights).toEqual([1, 1]);
      expect(fixture.told).toEqual([]);
    });

    it('that do not report their log: only one is used', async () => {
      const fixture = new Fixture('primary', [primary(), primary()]);
      for (const server of fixture.servers) {
        let isFirst = true;
        server.answer = async () => {
          if (!isFirst) return ['false', 'off'];
          isFirst = false;
          throw Object.assign(new Error('unknown function'), { code: '42883', severity: 'ERROR' });
        };
      }
      await fixture.connectAll();
      expect(fixture.weights).toEqual([1, 0]);
      expect(fixture.warnings).toEqual([
        'lag and timeline of a server are not known: unknown function',
        'lag and timeline of a server are not known: unknown function',
      ]);
    });
  });

  it.each(['57014', '57P01', '53200'])(
    'a query that failed with %s does not count as one the server does not know',
    async (code) => {
      const fixture = new Fixture('primary', [primary()]);
      await fixture.connectAll();
      const server = fixture.at(0);
      const asked: string[] = [];
      server.answer = async (text) => {
        if (asked.push(text) === 1) throw Object.assign(new Error('not now'), { code, severity: 'ERROR' });
        return primary();
      };
      await fixture.pass(2_500);
      expect(asked).toHaveLength(2);
      expect(asked[1]).toBe(asked[0]);
      expect(fixture.warnings).toEqual(['a server did not say what it is: not now']);
      expect(fixture.weights).toEqual([1]);
    },
  );

  describe('a primary after which another server was promoted', () => {
    const promoted = primary({ timeline: '00000002', log: 1_100, started: '2' });

    it.each(['primary', 'prefer-replica'] as const)(
      '%s: is cut as soon as the other reports it, once',
      async (role) => {
        const fixture = new Fixture(role, [primary(), standby()]);
        await fixture.connectAll();
        const [old, next] = [fixture.at(0), fixture.at(1)];
        // Frozen: it answers nothing any more.
        old.answer = () => new Promise(() => {});
        await fixture.pass(3_000);
        expect(old.cuts).toBe(0);
        next.says(promoted);
        await fixture.pass(1_500);
        expect([old.cuts, next.cuts]).toEqual([1, 0]);
        old.says(primary({ log: 2_000 }));
        await fixture.pass(10_000);
        expect(old).toMatchObject({ cuts: 1, isSuperseded: true });
        old.says(standby());
        await fixture.pass(2_000);
        expect(old.isSuperseded).toBe(false);
        expect(next.cuts).toBe(0);
      },
    );

    it('gets no write while the other is gone for a moment, unless the endpoint of the other has left', async () => {
      const fixture = new Fixture('primary', [primary(), standby()]);
      await fixture.connectAll();
      const [old, next] = fixture.servers as [FakeServer, FakeServer];
      next.says(promoted);
      await fixture.pass(1_500);
      next.close();
      await fixture.pass(60_000);
      expect(fixture.roles.isUsable(old.endpoint)).toBe(false);
      expect(old).toMatchObject({ cuts: 1, isSuperseded: true });
      fixture.stage.apply(EndpointSet.of(2, [old.endpoint]));
      await fixture.clock.advanceAsync(1_500);
      expect(fixture.roles.isUsable(old.endpoint)).toBe(true);
      expect(old.isSuperseded).toBe(false);
    });

    it('is cut on each of its connections, also one that a newer one has replaced', async () => {
      const fixture = new Fixture('primary', [primary(), standby()]);
      await fixture.connectAll();
      const newer = new FakeServer(fixture.at(0).endpoint.address, primary());
      await fixture.connect(newer);
      fixture.at(1).says(promoted);
      await fixture.pass(1_500);
      expect([fixture.at(0).cuts, newer.cuts]).toEqual([1, 1]);
    });

    it.each(['any', 'replica'] as const)('%s: is not cut', async (role) => {
      const fixture = new Fixture(role, [primary(), standby()], 10_000);
      await fixture.connectAll();
      fixture.at(1).says(promoted);
      await fixture.pass(2_000);
      expect(fixture.at(0).cuts).toBe(0);
    });

    it('is not cut for one whose timeline is unknown, or the same', async () => {
      const fixture = new Fixture('primary', [primary({ log: 2_000 }), primary({ started: '2' }), standby()]);
      await fixture.connectAll();
      fixture.at(2).says(['false', 'off', null, null, null, null, null]);
      await fixture.pass(2_000);
      expect(fixture.servers.map(({ cuts }) => cuts)).toEqual([0, 0, 0]);
    });
  });

  describe('a maximum lag', () => {
    let fixture: Fixture;
    beforeEach(async () => {
      fixture = new Fixture('prefer-replica', [primary(), standby(), standby()], 2_000);
      await fixture.connectAll();
    });

    it('excludes a standby that is behind until it has caught up', async () => {
      for (let second = 1; second <= 5; second++) {
        fixture.at(0).says(primary({ log: 1_000 + second }));
        fixture.at(1).says(standby({ known: 1_000 + second, replayed: 1_000 }));
        fixture.at(2).says(standby({ known: 1_000 + second }));
        await fixture.pass(1_000);
      }
      expect(fixture.weights).toEqual([0, 0, 1]);
      expect(fixture.told.at(-1)).toBe('10.0.0.2 it is more than 2000 ms behind');
      fixture.at(1).says(standby({ known: 1_005 }));
      await fixture.pass(1_000);
      expect(fixture.weights).toEqual([0, 1, 1]);
      expect(fixture.told.at(-1)).toBe('10.0.0.2 is back');
    });

    it('uses the primary if all are behind, and those behind if there is no primary', async () => {
      const log = 1_001;
      fixture.at(0).says(primary({ log }));
      for (const index of [1, 2]) fixture.at(index).says(standby({ known: log, replayed: 1_000, commitAge: '1' }));
      await fixture.pass(4_000);
      expect(fixture.weights).toEqual([1, 0, 0]);
      fixture.at(0).says(primary({ log, readOnly: 'on' }));
      await fixture.pass(1_000);
      expect(fixture.weights).toEqual([1, 0, 0]);
      fixture.at(0).says(standby({ known: log, replayed: 1_000 }));
      await fixture.pass(1_000);
      expect(fixture.weights).toEqual([1, 1, 1]);
    });
  });

  it('an answer that comes too late changes nothing, and the server is queried again', async () => {
    const fixture = new Fixture('primary', [primary(), standby()]);
    await fixture.connectAll();
    fixture.at(0).answer = () => new Promise(() => {});
    await fixture.pass(10_000);
    expect(fixture.weights).toEqual([1, 0]);
    // A second for the answer, one to the next question.
    expect(fixture.at(0).asked).toBe(1 + 5);
    expect(fixture.warnings).toContain('a server did not say what it is: 10.0.0.1:5432 did not say what it is in time');
    fixture.at(0).says(standby());
    fixture.at(1).says(primary({ timeline: '00000002' }));
    await fixture.pass(2_000);
    expect(fixture.weights).toEqual([0, 1]);
  });

  it('a server is connected only once it has answered', async () => {
    const fixture = new Fixture('primary', [primary()]);
    fixture.at(0).answer = () => new Promise(() => {});
    const connected = fixture.connect(fixture.at(0)).catch((error) => error.message);
    await fixture.clock.advanceAsync(1_000);
    expect(await connected).toBe('10.0.0.1:5432 did not say what it is in time');
    expect(fixture.roles.isUsable(fixture.at(0).endpoint)).toBe(false);
    expect(fixture.clock.timers).toBe(0);
  });

  it('servers are queried more often while none has the role, up to a limit', async () => {
    const fixture = new Fixture('primary', [standby(), standby()]);
    await fixture.connectAll();
    await fixture.pass(10_000);
    expect(fixture.at(0).asked).toBe(1 + 10_000 / 250);
    fixture.at(1).says(primary());
    await fixture.pass(300);
    expect(fixture.weights).toEqual([0, 1]);
    const { asked } = fixture.at(0);
    await fixture.pass(10_000);
    expect(fixture.at(0).asked - asked).toBeLessThanOrEqual(11);
  });

  it('a role that changes with every answer is followed, at most four times a second', async () => {
    const fixture = new Fixture('primary', [primary(), standby()]);
    await fixture.connectAll();
    let isPrimary = true;
    fixture.at(0).answer = async () => {
      isPrimary = !isPrimary;
      return isPrimary ? primary() : standby();
    };
    await fixture.pass(10_000);
    expect(fixture.at(0).asked).toBeLessThanOrEqual(1 + 10_000 / 250);
    expect(fixture.invalidations).toBeLessThan(100);
    const back = fixture.told.filter((line) => line === '10.0.0.1 is back');
    expect(back.length).toBeGreaterThan(5);
  });

  it('hints cause a query soon, but not one each', async () => {
    const fixture = new Fixture('primary', [primary(), standby()]);
    await fixture.connectAll();
    const { endpoint } = fixture.at(0);
    await fixture.pass(500);
    fixture.at(0).says(standby());
    fixture.roles.hint(endpoint);
    await fixture.clock.advanceAsync(0);
    expect(fixture.at(0).asked).toBe(2);
    expect(fixture.weights).toEqual([0, 0]);
    for (let ms = 0; ms < 1_000; ms++) {
      fixture.roles.hint(endpoint);
      await fixture.clock.advanceAsync(1);
    }
    expect(fixture.at(0).asked).toBeLessThanOrEqual(2 + 10);
    fixture.roles.hint(createEndpoint({ address: '10.9.9.9', port: 1 }));
  });

  it('a hint during a query causes another one soon', async () => {
    const fixture = new Fixture('primary', [primary(), standby()]);
    await fixture.connectAll();
    let answer: (row: Row) => void = () => {};
    fixture.at(0).answer = () =>
      new Promise((resolve) => {
        answer = resolve;
      });
    await fixture.clock.advanceAsync(1_000);
    fixture.roles.hint(fixture.at(0).endpoint);
    fixture.at(0).says(standby());
    answer(primary());
    await fixture.clock.advanceAsync(100);
    expect(fixture.weights).toEqual([0, 0]);
  });

  it('a server whose sessions have all ended gets no statement until it has said again what it is', async () => {
    const fixture = new Fixture('primary', [primary()]);
    await fixture.connectAll();
    const server = fixture.at(0);
    // An answer from before that is under way.
    let answer: (row: Row) => void = () => {};
    server.answer = () => new Promise((resolve) => (answer = resolve));
    await fixture.pass(1_000);
    answer(primary());
    fixture.roles.forget(server as unknown as PgServer);
    server.answer = () => new Promise((resolve) => (answer = resolve));
    await fixture.pass(500);
    expect([fixture.weights, server.asked, fixture.told]).toEqual([[0], 3, ['10.0.0.1 it does not say what it is']]);
    answer(standby());
    await fixture.pass(50);
    expect([fixture.weights, fixture.told.at(-1)]).toEqual([[0], '10.0.0.1 it is a standby']);
    fixture.roles.forget(server as unknown as PgServer);
    server.says(primary());
    await fixture.pass(50);
    expect([fixture.weights, fixture.warnings]).toEqual([[1], []]);
  });

  it('a connection that was replaced says nothing about its server any more', async () => {
    const fixture = new Fixture('primary', [primary()]);
    await fixture.connectAll();
    const old = fixture.at(0);
    await fixture.connect(new FakeServer('10.0.0.1', primary()));
    fixture.roles.forget(old as unknown as PgServer);
    expect([fixture.weights, old.asked]).toEqual([[1], 1]);
  });

  it('a server that refused a write is queried again, whatever it answers to an earlier query', async () => {
    const fixture = new Fixture('primary', [primary(), standby()]);
    await fixture.connectAll();
    let answer: (row: Row) => void = () => {};
    fixture.at(0).answer = () =>
      new Promise((resolve) => {
        answer = resolve;
      });
    await fixture.clock.advanceAsync(1_000);
    const rechecked = fixture.roles.recheck(fixture.at(0).endpoint);
    fixture.at(0).says(standby());
    answer(primary());
    await rechecked;
    expect(fixture.roles.isUsable(fixture.at(0).endpoint)).toBe(false);
  });

  it('a server that loses its role makes no call wait', async () => {
    const fixture = new Fixture('primary', [primary()]);
    await fixture.connectAll();
    expect(fixture.at(0).handBacks).toBe(0);
    fixture.at(0).says(standby());
    await fixture.pass(1_500);
    expect(fixture.at(0).handBacks).toBeGreaterThan(0);
  });

  it('queries stop when the pool is closed, or the server is gone', async () => {
    const fixture = new Fixture('replica', [primary(), standby()]);
    await fixture.connectAll();
    fixture.at(0).close();
    await fixture.clock.advanceAsync(0);
    fixture.stage.close?.();
    await fixture.clock.advanceAsync(60_000);
    expect(fixture.clock.timers).toBe(0);
    expect(fixture.servers.map(({ asked }) => asked)).toEqual([1, 1]);
  });
});
