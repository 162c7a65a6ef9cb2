import { describe, expect, it } from 'vitest';
import type { Endpoint } from '../../src/endpoint/endpoint.js';
import { isResolveError } from '../../src/errors.js';
import type { Resolution, Resolver, ResolverContext } from '../../src/resolver/resolver.js';
import { RecordingListener } from '../support/fixtures/recording-listener.js';

/** A resolver and the source it looks at, as the suite needs them. One is opened per test. */
export interface ResolverWorld {
  readonly resolver: Resolver;
  readonly context: ResolverContext;
  /** Resolves once the resolver must have noticed what was done before: turns of a fake clock, or a state awaited. */
  settle(): Promise<void>;
  /** The source now has another set, of at least one endpoint. */
  change?(): void | Promise<void>;
  /** The source now says that there is none. `settle` then waits as long as the resolver may hesitate. */
  empty?(): void | Promise<void>;
  /** The source cannot be asked any more; `mend` undoes it, with the same set as before. */
  fail?(): void | Promise<void>;
  mend?(): void | Promise<void>;
  /** How many timers, sockets and the like the resolver holds now. */
  held(): number;
  close?(): void | Promise<void>;
}

/** What the suite has to know of a resolver. */
export interface ResolverContract {
  readonly name: string;
  open(): ResolverWorld | Promise<ResolverWorld>;
  /** What its source cannot do, each with the reason; those tests do not apply. */
  readonly cannot?: { readonly change?: string; readonly empty?: string; readonly fail?: string };
}

/** What every resolver promises (`Resolver`), as tests. */
export function resolverContract({ name, open, cannot = {} }: ResolverContract): void {
  /** Runs `test` in a world of its own, with one watch that is closed at the end. */
  const inWorld =
    (test: (world: ResolverWorld, listener: RecordingListener, watch: Resolution) => void | Promise<void>) =>
    async (): Promise<void> => {
      const world = await open();
      try {
        const listener = new RecordingListener();
        const watch = world.resolver.watch(listener, world.context);
        try {
          await test(world, listener, watch);
        } finally {
          watch.close();
        }
      } finally {
        await world.close?.();
      }
    };
  const unless = (reason: string | undefined, title: string, test: () => Promise<void>): void => {
    if (reason === undefined) it(title, test);
  };

  describe(`the resolver contract: ${name}`, () => {
    it(
      'has a readable name',
      inWorld(({ resolver }) => {
        expect(resolver.name).toMatch(/\S/);
      }),
    );

    it(
      'never calls back before watch has returned',
      inWorld(async ({ resolver, context, settle }) => {
        let returned = false;
        const early: string[] = [];
        const told = (what: string) => (): void => {
          if (!returned) early.push(what);
        };
        const listener = { update: told('update'), fail: told('fail'), fresh: told('fresh') };
        const watch = resolver.watch(listener, context);
        returned = true;
        await settle();
        watch.close();
        expect(early).toEqual([]);
      }),
    );

    it(
      'publishes the whole set, each endpoint once',
      inWorld(async ({ settle }, listener) => {
        await settle();
        const endpoints = listener.endpoints as readonly Endpoint[];
        expect(endpoints.length).toBeGreaterThan(0);
        expect(new Set(endpoints.map(({ key }) => key)).size).toBe(endpoints.length);
        expect(listener.errors).toEqual([]);
      }),
    );

    it(
      'does nothing by itself while nothing changes',
      inWorld(async ({ settle }, listener) => {
        await settle();
        const { length } = listener.events;
        await settle();
        expect(listener.events.slice(length)).toEqual([]);
      }),
    );

    unless(
      cannot.change,
      'says the whole set again when it changes',
      inWorld(async ({ settle, change }, listener) => {
        await settle();
        const before = listener.keys;
        await change?.();
        await settle();
        expect(listener.keys).not.toBe(before);
        expect(listener.endpoints?.length).toBeGreaterThan(0);
      }),
    );

    unless(
      cannot.empty,
      'says an empty set when there is none',
      inWorld(async ({ settle, empty }, listener) => {
        await settle();
        await empty?.();
        await settle();
        expect(listener.events.at(-1)).toBe('∅');
      }),
    );

    unless(
      cannot.fail,
      'keeps the last set through an error, and says so once it is confirmed',
      inWorld(async ({ settle, fail, mend }, listener) => {
        await settle();
        const set = listener.keys;
        await fail?.();
        await settle();
        expect(listener.errors.length).toBeGreaterThan(0);
        expect(listener.errors.every(isResolveError)).toBe(true);
        expect(listener.keys).toBe(set);
        const failedAt = listener.events.length;
        await mend?.();
        await settle();
        // Either way the balancer knows that the set is fresh again.
        const since = listener.events.slice(failedAt).filter((event) => !event.startsWith('fail'));
        expect(since.length).toBeGreaterThan(0);
        expect(listener.keys).toBe(set);
      }),
    );

    unless(cannot.fail, 'reports an error before the first set, and finds the set later', async () => {
      const world = await open();
      const listener = new RecordingListener();
      await world.fail?.();
      const watch = world.resolver.watch(listener, world.context);
      await world.settle();
      expect(listener.errors.length).toBeGreaterThan(0);
      expect(listener.keys).toBeUndefined();
      await world.mend?.();
      await world.settle();
      expect(listener.endpoints?.length).toBeGreaterThan(0);
      watch.close();
      await world.close?.();
    });

    it(
      'accepts any number of hints to look',
      inWorld(async ({ settle }, listener, watch) => {
        watch.refresh();
        await settle();
        for (let hint = 0; hint < 100; hint++) watch.refresh();
        await settle();
        expect(listener.errors).toEqual([]);
        expect(listener.endpoints?.length).toBeGreaterThan(0);
      }),
    );

    it(
      'publishes nothing after close, which may come at any time and twice, and leaves nothing open',
      inWorld(async (world, listener, watch) => {
        const early = new RecordingListener();
        world.resolver.watch(early, world.context).close();
        await world.settle();
        expect(early.events).toEqual([]);
        const { length } = listener.events;
        watch.close();
        watch.close();
        watch.refresh();
        await world.change?.();
        await world.fail?.();
        await world.settle();
        expect(listener.events.slice(length)).toEqual([]);
        expect(world.held()).toBe(0);
      }),
    );

    it(
      'may be closed from within its own callback',
      inWorld(async (world) => {
        let calls = 0;
        const watch: Resolution = world.resolver.watch(
          {
            update: () => {
              calls++;
              watch.close();
            },
            fail: () => calls++,
            fresh: () => calls++,
          },
          world.context,
        );
        await world.settle();
        await world.change?.();
        await world.settle();
        expect(calls).toBe(1);
      }),
    );

    it(
      'keeps watches independent of each other',
      inWorld(async (world, listener, watch) => {
        const other = new RecordingListener();
        const otherWatch = world.resolver.watch(other, world.context);
        await world.settle();
        expect(other.keys).toBe(listener.keys);
        watch.close();
        await world.change?.();
        await world.settle();
        if (world.change !== undefined) expect(other.keys).not.toBe(listener.keys);
        otherWatch.close();
      }),
    );
  });
}
