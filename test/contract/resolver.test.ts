import { ResolveError } from '../../src/errors.js';
import { staticEndpoints } from '../../src/resolver/static.js';
import { FakeClock } from '../../src/testing/fake-clock.js';
import { FakeResolver } from '../../src/testing/fake-resolver.js';
import { seededRng } from '../../src/testing/seeded-rng.js';
import { type ResolverWorld, resolverContract } from './resolver.js';

resolverContract({
  name: 'staticEndpoints',
  open: () =>
    worldOf(
      staticEndpoints([
        { address: '10.0.0.1', port: 80 },
        { address: '10.0.0.2', port: 80 },
      ]),
    ),
  cannot: { change: 'a fixed list', empty: 'a fixed list', fail: 'nothing is asked' },
});

resolverContract({
  name: 'FakeResolver',
  open: () => {
    const resolver = new FakeResolver();
    resolver.update('10.0.0.1', '10.0.0.2');
    return {
      ...worldOf(resolver),
      change: () => resolver.update('10.0.0.2', '10.0.0.3'),
      empty: () => resolver.update(),
      fail: () => resolver.fail(new ResolveError('out of order')),
      mend: () => resolver.fresh(),
      held: () => resolver.watchers,
    };
  },
});

function worldOf(resolver: ResolverWorld['resolver']): ResolverWorld {
  const clock = new FakeClock();
  return {
    resolver,
    context: { clock, rng: seededRng(1), observer: {} },
    settle: () => clock.advanceAsync(1_000),
    held: () => clock.timers,
  };
}
