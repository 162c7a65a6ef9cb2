import { beforeEach, describe, expect, it } from 'vitest';
import { createEndpoint, type Endpoint } from '../../../src/endpoint/endpoint.js';
import { ResolveError } from '../../../src/errors.js';
import { Announcer, follow, nothingYet, type Resolved } from '../../../src/resolver/resolved.js';
import type { Resolver, ResolverListener } from '../../../src/resolver/resolver.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';
import { RecordingListener } from '../../support/fixtures/recording-listener.js';

const at = (...addresses: string[]): readonly Endpoint[] =>
  addresses.map((address) => createEndpoint({ address, port: 80 }));
const down = (message = 'down', permanent = false): ResolveError => new ResolveError(message, { permanent });

describe('the differences that a listener is told', () => {
  let listener: RecordingListener;
  let announcer: Announcer;

  beforeEach(() => {
    listener = new RecordingListener();
    announcer = new Announcer(listener);
  });

  it('are a set, a failure and its end, each once, however often the state is said', () => {
    const states: Resolved[] = [
      nothingYet,
      { ...nothingYet, endpoints: at('10.0.0.1') },
      { ...nothingYet, endpoints: at('10.0.0.1'), error: down() },
      { ...nothingYet, endpoints: at('10.0.0.1') },
    ];
    for (const state of states) for (let time = 0; time < 3; time++) announcer.say(state);
    expect(listener.events).toEqual(['10.0.0.1:80', 'fail down', 'fresh']);
  });

  it('are no end of a failure as long as there is no set', () => {
    announcer.say({ ...nothingYet, endpoints: undefined, error: down() });
    announcer.say(nothingYet);
    announcer.say({ ...nothingYet, endpoints: undefined, error: down() });
    expect(listener.events).toEqual(['fail down']);
  });

  it('are a new set and then its failure, also the one that the set before had', () => {
    announcer.say({ ...nothingYet, endpoints: [], error: down() });
    announcer.say({ ...nothingYet, endpoints: at('10.0.0.1'), error: down() });
    expect(listener.events).toEqual(['∅', 'fail down', '10.0.0.1:80', 'fail down']);
  });

  it('are a failure that turns out to be permanent', () => {
    announcer.say({ ...nothingYet, endpoints: undefined, error: down() });
    announcer.say({ ...nothingYet, endpoints: undefined, error: down('down', true) });
    expect(listener.errors.map(({ permanent }) => permanent)).toEqual([false, true]);
  });

  it('are the reason of an empty set, and of no other', () => {
    announcer.say({ ...nothingYet, endpoints: at('10.0.0.1'), emptyBecause: 'x' });
    expect(listener.reason).toBeUndefined();
    announcer.say({ ...nothingYet, endpoints: [], emptyBecause: 'x' });
    expect(listener.reason).toBe('x');
    announcer.say({ ...nothingYet, endpoints: [], emptyBecause: 'y' });
    announcer.say({ ...nothingYet, endpoints: [], emptyBecause: 'y' });
    expect(listener.reason).toBe('y');
    expect(listener.events).toEqual(['10.0.0.1:80', '∅', '∅']);
  });

  it('end when the listener closes the watch, or hears something newer, while it takes a set', () => {
    const events: string[] = [];
    let inUpdate = (): void => {};
    const nested: Announcer = new Announcer({
      update: () => {
        events.push('update');
        inUpdate();
      },
      fail: (error) => events.push(error.message),
      fresh: () => events.push('fresh'),
    });
    const newer: Resolved = { ...nothingYet, endpoints: at('10.0.0.1'), error: down('newer') };
    inUpdate = () => nested.say(newer);
    nested.say({ ...nothingYet, endpoints: at('10.0.0.1'), error: down('older') });
    expect(events).toEqual(['update', 'newer']);
    inUpdate = () => nested.close();
    nested.say({ ...nothingYet, endpoints: at('10.0.0.2'), error: down('late') });
    nested.say({ ...nothingYet, endpoints: at('10.0.0.3') });
    expect(events).toEqual(['update', 'newer', 'update']);
  });
});

describe('a resolver that is followed', () => {
  const warnings: string[] = [];
  let states: Resolved[];
  let listener: ResolverListener;
  const context = {
    clock: new FakeClock(),
    rng: { next: () => 0 },
    observer: { warned: ({ message }: { readonly message: string }) => warnings.push(message) },
  };
  const resolver = (resolution: unknown): Resolver => ({
    name: 'mine',
    watch: (given) => {
      listener = given;
      return resolution as ReturnType<Resolver['watch']>;
    },
  });
  const followed = (resolution: unknown = { refresh() {}, close() {} }): ReturnType<typeof follow> =>
    follow(resolver(resolution), context, (state) => states.push(state));

  beforeEach(() => {
    states = [];
    warnings.length = 0;
  });

  it('has a state: the last set, and why it is in doubt', () => {
    followed();
    listener.fail(down());
    listener.update(at('10.0.0.1'));
    listener.fail(down());
    listener.fresh();
    expect(states.map(({ endpoints, error }) => [endpoints?.length, error?.message])).toEqual([
      [undefined, 'down'],
      [1, undefined],
      [1, 'down'],
      [1, undefined],
    ]);
  });

  it('keeps its set when it lists what is no endpoint, or fails with what is no error', () => {
    followed();
    listener.update(at('10.0.0.1'));
    listener.update([{ address: '10.0.0.2' }] as unknown as readonly Endpoint[]);
    listener.fail('words' as unknown as ResolveError);
    expect(states.map(({ endpoints }) => endpoints?.length)).toEqual([1, 1, 1]);
    expect(states[1]?.error?.message).toContain('that createEndpoint did not make');
    expect(states[2]?.error).toMatchObject({ code: 'EVENKEEL_RESOLVE', message: 'mine: words' });
  });

  it('does not see its list change later', () => {
    followed();
    const list = [...at('10.0.0.1')];
    listener.update(list);
    list.length = 0;
    expect(states[0]?.endpoints).toHaveLength(1);
  });

  it('has no further say once it is closed, and is not asked again', () => {
    let refreshed = 0;
    const watch = followed({ refresh: () => refreshed++, close() {} });
    watch.refresh();
    watch.close();
    watch.refresh();
    listener.update(at('10.0.0.1'));
    listener.fail(down());
    expect([states, refreshed]).toEqual([[], 1]);
  });

  it('may throw in refresh and close', () => {
    const boom = (): never => {
      throw new Error('boom');
    };
    const watch = followed({ refresh: boom, close: boom });
    watch.refresh();
    watch.close();
    expect(warnings).toEqual(['the resolver threw at refresh', 'the resolver threw at close']);
  });

  it('is refused if it returns no resolution', () => {
    expect(() => followed(null)).toThrow(/resolver\.watch\(\) must be an object with refresh and close/);
  });
});
