import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { EvenkeelError, errorCodes } from '../../../src/errors.js';
import type { ObserverEvents } from '../../../src/observe/observer.js';
import { stagesOf } from '../../../src/stage/standard-stages.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { BalancerFixture, failure } from '../../support/fixtures/balancer-fixture.js';

const refused = (): Error => Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
const reset = (): Error => Object.assign(new Error('reset'), { code: 'ECONNRESET' });

/** What a caller says who knows that nothing was sent. */
const unsent = { classify: () => outcomes.notConnected };

describe('run', () => {
  const codes = ['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOTFOUND', 'EAI_AGAIN', 'ETIMEDOUT', 'ECONNRESET'];
  const thrown: readonly [string, unknown][] = [
    ...codes.map((code) => [code, Object.assign(new Error(code), { code, syscall: 'connect' })] as [string, unknown]),
    ...errorCodes.map((code) => [code, new EvenkeelError(code, 'of another client')] as [string, unknown]),
  ];
  it.each(thrown)(
    'does not repeat a call that is not idempotent: %s may come after something was sent',
    async (_, error) => {
      const fixture = new BalancerFixture();
      await fixture.publish('10.0.0.1', '10.0.0.2', '10.0.0.3');
      let uses = 0;
      const use = (): never => {
        uses++;
        throw error;
      };
      expect(await failure(fixture.balancer.run(use))).toBe(error);
      expect(uses).toBe(1);
      const later = async (): Promise<never> => {
        await undefined;
        return use();
      };
      expect(await failure(fixture.balancer.run(later, { idempotent: false }))).toBe(error);
      expect(uses).toBe(2);
    },
  );

  it('repeats a call if its caller says that nothing was sent, and an idempotent one after a lost connection', async () => {
    for (const options of [unsent, { idempotent: true }]) {
      const fixture = new BalancerFixture();
      await fixture.publish('10.0.0.1', '10.0.0.2', '10.0.0.3');
      let uses = 0;
      const error = refused();
      const use = (): never => {
        uses++;
        throw error;
      };
      expect(await failure(fixture.balancer.run(use, options))).toBe(error);
      expect(uses).toBe(3);
    }
  });

  it('does not blame an endpoint again when calls that open their own connections fail to reach it', async () => {
    const fixture = new BalancerFixture({ stages: stagesOf() });
    await fixture.publish('10.0.0.1', '10.0.0.2', '10.0.0.3');
    const uses = new Map<string, number>();
    for (let call = 0; call < 90; call++) {
      await failure(
        fixture.balancer.run(({ endpoint: { address } }) => {
          uses.set(address, (uses.get(address) ?? 0) + 1);
          throw address === '10.0.0.1' ? refused() : new DOMException('enough', 'AbortError');
        }),
      );
    }
    expect(uses.get('10.0.0.1')).toBe(5);
  });

  it('does not repeat a call that found no connection on the same endpoint at once', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    let uses = 0;
    const error = refused();
    expect(
      await failure(
        fixture.balancer.run(() => {
          uses++;
          throw error;
        }, unsent),
      ),
    ).toBe(error);
    expect(uses).toBe(1);
    expect(fixture.balancer.snapshot().endpoints[0]).toMatchObject({ inFlight: 0, failed: 1 });
  });

  it('repeats such a call there once the endpoint has a new connection', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    const ids: number[] = [];
    const call = fixture.balancer.run((connection) => {
      ids.push(connection.id);
      if (ids.length > 1) return 'done';
      connection.end(reset());
      throw refused();
    }, unsent);
    await fixture.clock.advanceAsync(1_000);
    expect(await call).toBe('done');
    expect(ids).toEqual([1, 2]);
  });

  it('repeats an idempotent call whose reused connection died on the same endpoint if there is no other', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    let uses = 0;
    const result = await fixture.balancer.run(
      () => {
        if (++uses === 1) throw reset();
        return 'done';
      },
      { idempotent: true },
    );
    expect([result, uses]).toEqual(['done', 2]);
  });

  it('never returns to the same endpoint while there is another', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1', '10.0.0.2', '10.0.0.3');
    for (let call = 0; call < 50; call++) {
      const tried: string[] = [];
      const error = await failure(
        fixture.balancer.run(
          ({ endpoint }) => {
            tried.push(endpoint.address);
            throw call % 2 === 0 ? refused() : reset();
          },
          { idempotent: true },
        ),
      );
      expect(error).toBeInstanceOf(Error);
      expect(new Set(tried).size).toBe(3);
      await fixture.clock.advanceAsync(1_000);
    }
  });

  it('does not repeat a call that its caller gave up, and reports it as cancelled', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1', '10.0.0.2');
    const controller = new AbortController();
    let uses = 0;
    const error = await failure(
      fixture.balancer.run(
        () => {
          uses++;
          controller.abort();
          throw refused();
        },
        { signal: controller.signal, idempotent: true },
      ),
    );
    expect(error).toMatchObject({ code: 'ECONNREFUSED' });
    expect(uses).toBe(1);
    expect(fixture.balancer.snapshot().endpoints.map(({ failed }) => failed)).toEqual([0, 0]);
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);
  });

  it('does not start a call that its caller aborted while it waited for a lease', async () => {
    const fixture = new BalancerFixture();
    const controller = new AbortController();
    let uses = 0;
    const call = failure(fixture.balancer.run(() => uses++, { signal: controller.signal }));
    await settle();
    fixture.resolver.update('10.0.0.1');
    while (fixture.balancer.snapshot().endpoints[0]?.inFlight !== 1) await Promise.resolve();
    controller.abort(new Error('enough'));
    expect(await call).toMatchObject({ message: 'enough' });
    expect(uses).toBe(0);
    expect(fixture.balancer.snapshot().endpoints[0]).toMatchObject({ inFlight: 0, failed: 0 });
  });

  it('does not repeat a call that was partly answered', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1', '10.0.0.2');
    let uses = 0;
    await failure(
      fixture.balancer.run(
        (_, lease) => {
          uses++;
          lease.progressed();
          throw reset();
        },
        { idempotent: true },
      ),
    );
    expect(uses).toBe(1);
  });

  it('repeats elsewhere what `retry.when` wants repeated, and only elsewhere', async () => {
    const fixture = new BalancerFixture({
      retry: { when: ({ usual, outcome }) => usual || outcome.cause === 'overload' },
    });
    await fixture.publish('10.0.0.1', '10.0.0.2');
    const overloaded = new Error('not now');
    const classify = (): typeof outcomes.overload => outcomes.overload;
    for (const idempotent of [true, false]) {
      const tried: string[] = [];
      const error = await failure(
        fixture.balancer.run(
          ({ endpoint }) => {
            tried.push(endpoint.address);
            throw overloaded;
          },
          { idempotent, classify },
        ),
      );
      expect(error).toBe(overloaded);
      // Three attempts would be allowed, but both endpoints have said no.
      expect(new Set(tried).size).toBe(tried.length);
      expect(tried).toHaveLength(idempotent ? 2 : 1);
    }
  });

  it('uses the outcome that `use` gave the lease, whether it returns or throws', async () => {
    const ended: ObserverEvents['attemptEnded'][] = [];
    const fixture = new BalancerFixture({ observer: { attemptEnded: (event) => ended.push(event) } });
    await fixture.publish('10.0.0.1', '10.0.0.2');
    expect(
      await fixture.balancer.run((_, lease) => {
        lease.end(outcomes.status);
        return 503;
      }),
    ).toBe(503);
    let uses = 0;
    await fixture.balancer.run((_, lease) => {
      if (++uses === 2) return;
      lease.end(outcomes.notStarted);
      throw new Error('not known to classifyError');
    });
    expect(ended.map(({ outcome, attempt, retrying }) => [outcome.kind, attempt, retrying])).toEqual([
      ['failure', 1, false],
      ['not-started', 1, true],
      ['success', 2, false],
    ]);
    expect(ended.map((event) => 'error' in event)).toEqual([false, true, false]);
  });

  it('ends the lease when classify throws, or returns nothing', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    const error = reset();
    const use = (): never => {
      throw error;
    };
    const classify = (): never => {
      throw new Error('mine');
    };
    expect(await failure(fixture.balancer.run(use, { classify, idempotent: true }))).toBe(error);
    expect(await failure(fixture.balancer.run(use, { classify: () => undefined as never }))).toBe(error);
    expect(fixture.balancer.snapshot().endpoints[0]).toMatchObject({ inFlight: 0, failed: 2 });
  });

  it('waits for another endpoint as long as the balancer allows, and then fails with the error of the attempt', async () => {
    const fixture = new BalancerFixture({ waitTimeoutMs: 500 });
    await fixture.publish('10.0.0.1');
    const call = failure(
      fixture.balancer.run((connection) => {
        fixture.transport.behaviour.set('10.0.0.1:80', 'refuse');
        connection.end(reset());
        throw refused();
      }, unsent),
    );
    await settle();
    expect(fixture.balancer.snapshot().waiting).toBe(1);
    await fixture.clock.advanceAsync(500);
    expect(await call).toMatchObject({ code: 'ECONNREFUSED' });
  });

  it('reports no attempts where nobody listens', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    let reads = 0;
    const { observer } = fixture.balancer;
    expect(observer.attemptEnded).toBeUndefined();
    await fixture.balancer.run(() => {
      reads++;
    });
    expect(reads).toBe(1);
  });
});

describe('the arguments of run', () => {
  it.each<[string, unknown, unknown]>([
    ['use must be a function, got undefined', undefined, {}],
    ['use must be a function', 'GET', {}],
    ['run has no option "deadlinMs"', () => {}, { deadlinMs: 5 }],
    ['run must be an object, got null', () => {}, null],
    ['classify must be a function', () => {}, { classify: 'timeout' }],
    ['idempotent must be true or false, got "yes"', () => {}, { idempotent: 'yes' }],
  ])('are refused before an endpoint is used: %s', async (message, use, options) => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    const error = await failure(fixture.balancer.run(use as never, options as never));
    expect(error).toMatchObject({ code: 'EVENKEEL_OPTION', message: expect.stringContaining(message) });
    expect(fixture.balancer.snapshot().endpoints[0]).toMatchObject({ started: 0, failed: 0 });
  });

  it('may have options that are undefined', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1');
    const none = { signal: undefined, key: undefined, idempotent: undefined, deadlineMs: undefined };
    expect(await fixture.balancer.run(() => 'done', { ...none, classify: undefined })).toBe('done');
  });
});

describe('run with a deadline', () => {
  const never = (): Promise<never> => new Promise(() => {});
  const ended: ObserverEvents['attemptEnded'][] = [];
  const fixtureOf = async (count: number, options: ConstructorParameters<typeof BalancerFixture>[0] = {}) => {
    ended.length = 0;
    const fixture = new BalancerFixture({ observer: { attemptEnded: (event) => ended.push(event) }, ...options });
    await fixture.publish(...['10.0.0.1', '10.0.0.2', '10.0.0.3'].slice(0, count));
    return fixture;
  };

  it('rejects at that time, whether `use` listens or not; the endpoint timed out', async () => {
    const fixture = await fixtureOf(1);
    let given: AbortSignal | undefined;
    const call = failure(
      fixture.balancer.run(
        (_handle, _lease, signal) => {
          given = signal;
          return never();
        },
        { deadlineMs: 100 },
      ),
    );
    await fixture.clock.advanceAsync(99);
    expect(given?.aborted).toBe(false);
    await fixture.clock.advanceAsync(1);
    const error = await call;
    expect(error).toMatchObject({ code: 'EVENKEEL_DEADLINE', endpoint: '10.0.0.1:80' });
    expect((error as Error).message).toBe(
      `${fixture.balancer.snapshot().resolver}: the call did not finish within 100 ms: no answer from 10.0.0.1:80`,
    );
    expect(given?.reason).toBe(error);
    expect(ended.map(({ outcome, retrying }) => [outcome, retrying])).toEqual([[outcomes.timeout, false]]);
    expect(fixture.balancer.snapshot().endpoints[0]).toMatchObject({ inFlight: 0, failed: 1 });
  });

  it('includes waiting and all attempts, and names the endpoints that were tried', async () => {
    const fixture = await fixtureOf(2);
    const used: string[] = [];
    const call = failure(
      fixture.balancer.run(
        async ({ endpoint }) => {
          used.push(endpoint.address);
          if (used.length === 2) return never();
          await new Promise<void>((resolve) => fixture.clock.timer(resolve, 60));
          throw reset();
        },
        { deadlineMs: 100, idempotent: true },
      ),
    );
    await fixture.clock.advanceAsync(100);
    expect(((await call) as Error).message).toContain(`no answer from ${used[1]}:80; before that ${used[0]}:80`);
    // It had 40 of 100 ms.
    expect(ended.map(({ outcome }) => outcome)).toEqual([outcomes.reset, outcomes.cancelled]);
  });

  it('ends the wait for an endpoint', async () => {
    const fixture = new BalancerFixture();
    const call = failure(fixture.balancer.run(never, { deadlineMs: 100 }));
    await fixture.clock.advanceAsync(100);
    expect(await call).toMatchObject({ code: 'EVENKEEL_DEADLINE', endpoint: undefined });
    expect(fixture.balancer.snapshot().waiting).toBe(0);
  });

  it('does not repeat after it, whatever the rule says', async () => {
    const fixture = await fixtureOf(3, { retry: { when: () => true } });
    let uses = 0;
    const use = (): Promise<never> => {
      uses++;
      return never();
    };
    const call = failure(fixture.balancer.run(use, { deadlineMs: 100, idempotent: true }));
    await fixture.clock.advanceAsync(1_000);
    await call;
    expect(uses).toBe(1);
  });

  it('passes results, errors and aborts on unchanged, and leaves no timer and no listener', async () => {
    const fixture = await fixtureOf(1);
    const { signal } = new AbortController();
    expect(await fixture.balancer.run(() => 'done', { deadlineMs: 100, signal })).toBe('done');
    const error = new Error('mine');
    const failing = (): never => {
      throw error;
    };
    expect(await failure(fixture.balancer.run(failing, { deadlineMs: 100, signal }))).toBe(error);
    const controller = new AbortController();
    const call = failure(fixture.balancer.run(never, { deadlineMs: 100, signal: controller.signal }));
    await settle();
    controller.abort(error);
    expect(await call).toBe(error);
    expect(ended.at(-1)?.outcome).toEqual(outcomes.cancelled);
    expect(await failure(fixture.balancer.run(never, { deadlineMs: 100, signal: controller.signal }))).toBe(error);
    // The one of the stall watch is not.
    expect(fixture.clock.referencedTimers).toBe(0);
    expect([signal, controller.signal].flatMap((each) => getEventListeners(each, 'abort'))).toEqual([]);
  });

  it("gives `use` the caller's own signal where there is no deadline", async () => {
    const fixture = await fixtureOf(1);
    const { signal } = new AbortController();
    expect(await fixture.balancer.run((_handle, _lease, given) => given, { signal })).toBe(signal);
    expect(await fixture.balancer.run((_handle, _lease, given) => given)).toBeUndefined();
  });

  it('needs a valid time', async () => {
    const fixture = await fixtureOf(1);
    for (const deadlineMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, '5' as never]) {
      expect(await failure(fixture.balancer.run(never, { deadlineMs }))).toMatchObject({ code: 'EVENKEEL_OPTION' });
    }
    expect(fixture.balancer.snapshot().endpoints[0]?.inFlight).toBe(0);
  });
});

describe('the counts in a snapshot', () => {
  it('include calls, picks at endpoints that are gone, retries by reason, and calls that got no endpoint', async () => {
    const fixture = new BalancerFixture();
    await fixture.publish('10.0.0.1', '10.0.0.2');
    let uses = 0;
    await fixture.balancer.run(() => {
      if (++uses === 1) throw refused();
    }, unsent);
    await fixture.addresses(3);
    await fixture.publish();
    await fixture.clock.advanceAsync(60_000);
    expect(fixture.balancer.snapshot().endpoints).toEqual([]);
    await failure(fixture.addresses(1));
    const { counts } = fixture.balancer.snapshot();
    expect(counts).toMatchObject({ calls: 5, picks: 5, refused: 1, hedges: 0, overBudget: 0 });
    expect(counts.retries).toMatchObject({ connect: 1, reset: 0, 'not-started': 0 });
  });
});
