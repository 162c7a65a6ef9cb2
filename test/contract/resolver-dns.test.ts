import { ResolveError } from '../../src/errors.js';
import { firstAvailable, union } from '../../src/resolver/combine.js';
import { discovery } from '../../src/resolver/discovery.js';
import { dns, resolveDnsOptions } from '../../src/resolver/dns.js';
import type { Resolver } from '../../src/resolver/resolver.js';
import { FakeClock } from '../../src/testing/fake-clock.js';
import { FakeResolver } from '../../src/testing/fake-resolver.js';
import { seededRng } from '../../src/testing/seeded-rng.js';
import { FakeDnsClient } from '../support/fixtures/fake-dns-client.js';
import { type ResolverWorld, resolverContract } from './resolver.js';

const orders = 'orders.shop.svc.cluster.local';

/** A name server that knows one Service, and a resolver that asks it. */
function dnsWorld(makeResolver: (client: FakeDnsClient) => Resolver): ResolverWorld {
  const client = new FakeDnsClient();
  const clock = new FakeClock();
  let pods = ['10.0.0.1', '10.0.0.2'];
  const show = (): void => {
    client.answers[`A ${orders}.`] = pods;
    client.answers[`SRV _http._tcp.${orders}.`] = pods.map((pod) => ({
      name: `${pod}.${orders}`,
      port: 8080,
      priority: 0,
      weight: 50,
    }));
  };
  const answer = (code: string): void => {
    for (const question of Object.keys(client.answers)) client.answers[question] = code;
  };
  show();
  return {
    resolver: makeResolver(client),
    context: { clock, rng: seededRng(1), observer: {} },
    // Beyond the longest pause between looks, in steps, since questions follow from answers.
    async settle() {
      for (let step = 0; step < 20; step++) await clock.advanceAsync(2_500);
    },
    change: () => {
      pods = ['10.0.0.2', '10.0.0.3'];
      show();
    },
    empty: () => answer('ENOTFOUND'),
    fail: () => answer('ESERVFAIL'),
    mend: show,
    held: () => clock.timers,
  };
}

resolverContract({
  name: 'dns by address records',
  open: () => dnsWorld((client) => dns({ host: orders, port: 8080, client: () => client })),
});

resolverContract({
  name: 'dns by SRV records',
  open: () => dnsWorld((client) => dns({ host: orders, srv: 'http', client: () => client })),
});

resolverContract({
  name: 'the discovery modes on its second mode',
  open: () =>
    dnsWorld((client) =>
      discovery({
        target: 'orders.shop:8080',
        host: 'orders.shop',
        port: 8080,
        slices: async () => 'this is no pod',
        dns: resolveDnsOptions({
          host: orders,
          port: 8080,
          client: () => client,
          clusterDomain: 'cluster.local',
          namespace: 'web',
        }),
        slots: { connections: 8, connectionAgeMs: 60_000 },
        sliceGraceMs: 2_500,
      }),
    ),
});

/** Two resolvers of one place, combined. */
function combinedWorld(combine: (resolvers: readonly Resolver[]) => Resolver): ResolverWorld {
  const sources = [new FakeResolver(), new FakeResolver()];
  const clock = new FakeClock();
  for (const source of sources) source.update('10.0.0.1', '10.0.0.2');
  return {
    resolver: combine(sources),
    context: { clock, rng: seededRng(1), observer: {} },
    settle: () => clock.advanceAsync(5_000),
    change: () => sources[0]?.update('10.0.0.3'),
    empty: () => {
      for (const source of sources) source.update();
    },
    fail: () => {
      for (const source of sources) source.fail(new ResolveError('out of order'));
    },
    mend: () => {
      for (const source of sources) source.fresh();
    },
    held: () => clock.timers + sources.reduce((sum, source) => sum + source.watchers, 0),
  };
}

resolverContract({ name: 'firstAvailable', open: () => combinedWorld((sources) => firstAvailable(sources)) });
resolverContract({ name: 'union', open: () => combinedWorld((sources) => union(sources)) });
