import { describe, expect, it } from 'vitest';
import type { Borrower, OwnAnswer, PooledSession, SessionOwner } from '../../../../src/adapter/sql/session.js';
import { type ConnectRefusal, type PoolLimits, SessionPool } from '../../../../src/adapter/sql/session-pool.js';
import { createEndpoint } from '../../../../src/endpoint/endpoint.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';
import { stateOf } from '../../../support/fixtures/balancer-fixture.js';

/** A session of a server that does whatever the test says. */
class FakeSession implements PooledSession {
  isAlive = true;
  isOccupied = false;
  uses = 0;
  isIdle = false;
  isUsed = false;
  idleSinceMs = 0;
  unusedSinceMs = 0;
  expiresAtMs = Number.POSITIVE_INFINITY;
  /** Answers the query of evenkeel's own that runs on it. */
  answer: OwnAnswer | undefined;
  readonly #owner: SessionOwner<FakeSession>;

  constructor(owner: SessionOwner<FakeSession>) {
    this.#owner = owner;
  }

  ref(): void {}
  unref(): void {}

  runOwn(_question: unknown, answer: OwnAnswer): void {
    this.answer = answer;
  }

  release(free: () => void): void {
    this.uses++;
    free();
    this.#owner.freed(this);
  }

  quit(): void {
    this.#end(undefined, 'application');
  }

  kill(error: Error): void {
    this.#end(error, 'server');
  }

  cut(error: Error): void {
    this.#end(error, 'application');
  }

  /** The server ends it. */
  lose(error?: Error): void {
    this.#end(error, 'server');
  }

  #end(error: Error | undefined, by: 'server' | 'application'): void {
    if (!this.isAlive) return;
    this.isAlive = false;
    this.#owner.lost(this, error, by);
  }
}

/** A call that wants a session: it notes what it gets. */
class Caller implements Borrower<FakeSession> {
  readonly isOwn = false;
  readonly notes: string[] = [];
  session: FakeSession | undefined;

  lent(session: FakeSession): void {
    this.session = session;
    this.notes.push('lent');
  }

  waits(): void {
    this.notes.push('waits');
  }

  notLent(error: Error, why: string): void {
    this.notes.push(`${why}: ${error.message}`);
  }

  giveBack(): void {
    const { session } = this;
    this.session = undefined;
    session?.release(() => {});
  }
}

interface Opening {
  /** The server greets: returns the session. */
  greets(): FakeSession;
  refuses(message: string): void;
}

/** A pool with one idle session, as after a connection was opened. */
function poolOf(limits: Partial<PoolLimits> = {}, refusal: ConnectRefusal = 'full') {
  const clock = new FakeClock();
  /** Connections that are being opened. */
  const openings: Opening[] = [];
  const warnings: string[] = [];
  /** What `open` throws from now on. */
  const fault: { thrown?: Error } = {};
  let emptied = 0;
  const pool = new SessionPool<FakeSession>({
    endpoint: createEndpoint({ address: '10.0.0.1', port: 3306 }),
    clock,
    // Ages are exactly their mean.
    rng: { next: () => 0.5 },
    limits: {
      max: 3,
      min: 1,
      maxIdle: 3,
      idleTimeoutMs: 60_000,
      maxUses: Number.POSITIVE_INFINITY,
      maxAgeMs: Number.POSITIVE_INFINITY,
      validateAfterMs: 1_000_000,
      validateTimeoutMs: 500,
      connectTimeoutMs: 2_000,
      ...limits,
    },
    open: (owner, done) => {
      if (fault.thrown !== undefined) throw fault.thrown;
      const settle = (error: Error | undefined, session: FakeSession | undefined): void => {
        openings.splice(openings.indexOf(opening), 1);
        done(error, session);
      };
      const opening: Opening = {
        greets() {
          const session = new FakeSession(owner);
          settle(undefined, session);
          return session;
        },
        refuses: (message) => settle(new Error(message), undefined),
      };
      openings.push(opening);
      return () => opening.refuses('called off');
    },
    refusalOf: () => refusal,
    isOrderlyEnd: (error) => error === undefined,
    keepIfYoungerThanMs: 1_000,
    pingQuery: 'ping',
    ownQueriesMayExceedMax: false,
    warned: (error) => warnings.push(error.message),
    emptied: () => emptied++,
  });
  pool.open(() => {});
  const first = openings[0]?.greets() as FakeSession;
  const borrow = (): Caller => {
    const caller = new Caller();
    pool.borrow(caller);
    return caller;
  };
  return { clock, pool, openings, warnings, fault, first, borrow, emptied: () => emptied };
}

describe('a pool of SQL sessions', () => {
  it('lends the session that was used last', () => {
    const { openings, first, borrow } = poolOf();
    const [a, b] = [borrow(), borrow()];
    const second = openings[0]?.greets();
    a.giveBack();
    b.giveBack();
    expect(borrow().session).toBe(second);
    expect(borrow().session).toBe(first);
  });

  it('opens one connection for each call that waits, up to its limit; further calls get what is given back, in order', () => {
    const { pool, openings, borrow } = poolOf({ max: 2 });
    const [a, b, c, d] = [borrow(), borrow(), borrow(), borrow()];
    expect([openings.length, pool.size, pool.waitingCount]).toEqual([1, 2, 3]);
    openings[0]?.greets();
    expect([a, b, c, d].map(({ notes }) => notes.join())).toEqual(['lent', 'waits,lent', 'waits', 'waits']);
    a.giveBack();
    b.giveBack();
    expect([c, d].map(({ notes }) => notes.join())).toEqual(['waits,lent', 'waits,lent']);
    expect([openings.length, pool.waitingCount]).toEqual([0, 0]);
  });

  it('a call that gives up gets no session', () => {
    const { pool, borrow } = poolOf({ max: 1 });
    const a = borrow();
    const b = borrow();
    pool.forget(b);
    a.giveBack();
    expect([b.notes, pool.idleCount]).toEqual([['waits'], 1]);
  });

  it('ends sessions that were idle for long, but keeps one', () => {
    const { clock, pool, openings, borrow } = poolOf({ idleTimeoutMs: 10_000 });
    const callers = [borrow(), borrow(), borrow()];
    while (openings.length > 0) openings[0]?.greets();
    for (const caller of callers) caller.giveBack();
    expect(pool.sockets).toBe(3);
    clock.advance(9_000);
    expect(pool.sockets).toBe(3);
    clock.advance(100_000);
    expect([pool.sockets, pool.idleCount, openings.length]).toEqual([1, 1, 0]);
  });

  it('ends sessions that no call used for long, although queries of its own ran on them', async () => {
    const { clock, pool, openings, first, borrow } = poolOf({ idleTimeoutMs: 10_000 });
    const callers = [borrow(), borrow(), borrow()];
    while (openings.length > 0) openings[0]?.greets();
    const sessions = callers.map(({ session }) => session as FakeSession);
    for (const caller of callers) caller.giveBack();
    const asked: FakeSession[] = [];
    for (let second = 0; second < 9; second++) {
      void pool.runOwn('what are you', new AbortController().signal);
      const session = sessions.find(({ answer }) => answer !== undefined) as FakeSession;
      asked.push(session);
      const { answer } = session;
      session.answer = undefined;
      answer?.(null);
      clock.advance(1_000);
    }
    // All were tested in turn, and the one that a call used last is still lent first.
    expect(new Set(asked.slice(0, 3)).size).toBe(3);
    expect([borrow().session, first]).toEqual([sessions[2], sessions[0]]);
    clock.advance(2_000);
    expect(pool.sockets).toBe(1);
  });

  it('opens a connection for a query of its own only if all are in use and the limit has room for one more', () => {
    const { pool, openings, borrow } = poolOf({ max: 2 });
    const ask = (): void => void pool.runOwn('what are you', new AbortController().signal);
    borrow();
    ask();
    expect(openings.length).toBe(1);
    const second = openings[0]?.greets() as FakeSession;
    expect(second.answer).toBeDefined();
    ask();
    expect([openings.length, pool.waitingCount]).toEqual([0, 1]);
  });

  it('sends its waiters elsewhere when the server loses its role, once the picker knows; its own queries stay', () => {
    const { clock, pool, first, borrow } = poolOf({ max: 1, validateAfterMs: 5_000 });
    clock.advance(5_000);
    const validating = borrow();
    const waiting = borrow();
    const own = pool.runOwn('what are you', new AbortController().signal);
    pool.handBack();
    expect([validating.notes, waiting.notes]).toEqual([['waits'], ['waits']]);
    clock.advance(0);
    const standby = 'standby: no connection to 10.0.0.1:3306: it gets no statements for now';
    expect([validating.notes, waiting.notes]).toEqual([
      ['waits', standby],
      ['waits', standby],
    ]);
    first.answer?.(null);
    first.answer?.(null, 'a replica');
    expect(pool.waitingCount).toBe(0);
    return expect(own).resolves.toBe('a replica');
  });

  it('opens another within a second when the server ends the last one in order, and dies when it does so for long', async () => {
    const { clock, pool, openings, first, emptied } = poolOf();
    first.lose();
    expect([pool.size, openings.length, emptied()]).toEqual([0, 0, 1]);
    clock.advance(1_000);
    expect(openings.length).toBe(1);
    openings[0]?.greets().lose();
    // It has been connected for as long as `keepIfYoungerThanMs`.
    expect(await pool.closed).toBeUndefined();
    expect([clock.timers, emptied()]).toEqual([0, 1]);
  });

  it('is gone when the server ends the last session with an error', async () => {
    const { clock, pool, first } = poolOf();
    first.lose(new Error('reset'));
    expect((await pool.closed)?.message).toBe('reset');
    expect(clock.timers).toBe(0);
  });

  it('is gone when the last of its connections is refused, however many calls come meanwhile', async () => {
    const { clock, pool, openings, first, borrow } = poolOf({}, 'silent');
    const [a, b, c] = [borrow(), borrow(), borrow()];
    first.lose(new Error('reset'));
    expect(openings.length).toBe(2);
    openings[0]?.refuses('no greeting');
    const late = borrow();
    expect(openings.length).toBe(1);
    while (openings.length > 0) openings[0]?.refuses('no greeting');
    expect((await pool.closed)?.message).toBe('no greeting');
    for (const { notes } of [b, c, late]) expect(notes).toEqual(['waits', expect.stringMatching(/^refused: /)]);
    expect([a.notes, clock.timers]).toEqual([['lent'], 0]);
  });

  it('goes on if one of its last connections is greeted, and opens as many as calls wait', () => {
    const { openings, first, borrow } = poolOf({}, 'silent');
    borrow();
    const [b, c] = [borrow(), borrow()];
    first.lose(new Error('reset'));
    openings[0]?.refuses('no greeting');
    expect(openings.length).toBe(1);
    openings[0]?.greets();
    expect([b.notes, c.notes]).toEqual([['waits', 'lent'], ['waits']]);
    expect(openings.length).toBe(1);
    openings[0]?.greets();
    expect(c.notes).toEqual(['waits', 'lent']);
  });

  it('a server that refuses a further connection is full for five seconds: calls beyond its sessions go elsewhere', () => {
    const { clock, pool, openings, warnings, borrow } = poolOf();
    const a = borrow();
    const b = borrow();
    openings[0]?.refuses('Too many connections');
    expect(b.notes).toEqual(['waits', 'full: no connection to 10.0.0.1:3306: Too many connections']);
    expect([pool.capacity, warnings.length, a.session?.isAlive]).toEqual([1, 1, true]);
    borrow();
    clock.advance(4_999);
    expect([pool.capacity, openings.length]).toEqual([1, 0]);
    clock.advance(1);
    expect(pool.capacity).toBe(2);
    borrow();
    expect(openings.length).toBe(1);
    openings[0]?.greets();
    expect(pool.capacity).toBe(3);
  });

  it('a server that closed its listener is leaving', async () => {
    const { pool, openings, borrow } = poolOf({}, 'stopping');
    borrow();
    borrow();
    expect(await stateOf(pool.leaving)).toBe('pending');
    openings[0]?.refuses('ECONNREFUSED');
    expect(await stateOf(pool.leaving)).toBe('fulfilled');
  });

  it('takes it for a refusal when a connection cannot even be begun', async () => {
    const { clock, pool, warnings, fault, first, borrow } = poolOf();
    fault.thrown = new Error('EMFILE: too many open files');
    const [a, b] = [borrow(), borrow()];
    expect(b.notes).toEqual(['waits']);
    clock.flush();
    expect(b.notes).toEqual(['waits', 'full: no connection to 10.0.0.1:3306: EMFILE: too many open files']);
    expect([warnings.length, pool.capacity, pool.size]).toEqual([1, 1, 1]);
    a.giveBack();
    // The same when a timer wants a connection; the server is gone if there is no other.
    first.lose();
    clock.advance(1_000);
    clock.flush();
    expect(await pool.closed).toEqual(fault.thrown);
  });

  it.each(['is lost', 'is cut'] as const)('sends its waiters away when its last session %s while it closes', (how) => {
    const { pool, first, borrow } = poolOf({ max: 1 });
    borrow();
    const waiting = borrow();
    const cut = new AbortController();
    void pool.close(cut.signal);
    if (how === 'is lost') first.lose(new Error('reset'));
    else cut.abort();
    expect(waiting.notes).toEqual(['waits', expect.stringMatching(/^left: no connection to 10\.0\.0\.1:3306: /)]);
  });

  it('replaces an old session once there is another', () => {
    const { clock, pool, openings, first } = poolOf({ maxAgeMs: 20_000 });
    clock.advance(19_000);
    expect(openings.length).toBe(0);
    clock.advance(1_000);
    expect([openings.length, first.isAlive]).toEqual([1, true]);
    openings[0]?.greets();
    expect([first.isAlive, pool.sockets, pool.idleCount]).toEqual([false, 1, 1]);
  });

  it('replaces an old session that a call has only when it is given back', () => {
    const { clock, pool, openings, first, borrow } = poolOf({ maxAgeMs: 20_000 });
    const caller = borrow();
    clock.advance(20_000);
    openings[0]?.greets();
    expect([first.isAlive, pool.sockets]).toEqual([true, 2]);
    caller.giveBack();
    expect([first.isAlive, pool.sockets]).toEqual([false, 1]);
  });

  it('sends its waiters away when the server leaves the Service, and lends no idle session to later ones it has not', () => {
    const { clock, pool, openings, borrow } = poolOf({ max: 1 });
    const a = borrow();
    const b = borrow();
    pool.left();
    const gone = 'left: no connection to 10.0.0.1:3306: it left the Service before the statement was sent';
    expect([a.notes, b.notes]).toEqual([['lent'], ['waits', gone]]);
    const c = borrow();
    clock.advance(0);
    expect([c.notes, openings.length]).toEqual([[gone], 0]);
    a.giveBack();
    pool.returned();
    expect(borrow().notes).toEqual(['lent']);
  });

  it('checks a session that was idle for long before it lends it; when the server does not answer, the call goes elsewhere', () => {
    const { clock, pool, first, borrow } = poolOf({ validateAfterMs: 5_000 });
    clock.advance(5_000);
    const a = borrow();
    expect([a.notes, first.answer === undefined]).toEqual([['waits'], false]);
    first.answer?.(null);
    expect(a.session).toBe(first);
    a.giveBack();
    clock.advance(5_000);
    const b = borrow();
    clock.advance(500);
    expect(b.notes).toEqual(['waits', 'unresponsive: 10.0.0.1:3306 did not answer a ping within 500 ms']);
    expect([first.isAlive, pool.sockets]).toEqual([false, 0]);
  });

  it('closes when its calls have ended, and leaves no timer', async () => {
    const { clock, pool, borrow } = poolOf();
    const caller = borrow();
    const closed = pool.close();
    expect(await stateOf(closed)).toBe('pending');
    caller.giveBack();
    await closed;
    expect([pool.sockets, clock.timers]).toEqual([0, 0]);
  });

  it('lends no session of a superseded server to a call whose ping is under way', () => {
    const { clock, pool, first, borrow } = poolOf({ validateAfterMs: 5_000 });
    clock.advance(6_000);
    const call = borrow();
    pool.supersede();
    first.answer?.(null);
    expect([call.session, call.notes.at(-1)?.startsWith('left: ')]).toEqual([undefined, true]);
  });
});
