import { Client, credentials, experimental } from '@grpc/grpc-js';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { openAppChannels } from '../../../../src/adapter/grpc-js/app-channels.js';
import { FakeResolver } from '../../../../src/testing/fake-resolver.js';
import { FakeDnsClient } from '../../../support/fixtures/fake-dns-client.js';

const ADDRESS = 'orders.shop:50051';
const NAME = 'A orders.shop.svc.cluster.local.';

/** Resolvers of grpc-js for names that are no Service; they find nothing, and fail nothing. */
const resolved: PlainResolver[] = [];
class PlainResolver implements experimental.Resolver {
  lookups = 0;
  isDestroyed = false;

  constructor() {
    resolved.push(this);
  }

  static getDefaultAuthority(): string {
    return ADDRESS;
  }

  updateResolution(): void {
    this.lookups++;
  }

  destroy(): void {
    this.isDestroyed = true;
  }
}
experimental.registerResolver('dns', PlainResolver);

let dns: FakeDnsClient;
let pods: FakeResolver;
let client: Client;

beforeEach(() => {
  // The clock of an app's channels is the machine's.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] });
  resolved.length = 0;
  dns = new FakeDnsClient();
  pods = new FakeResolver();
  const channels = openAppChannels({
    options: () => ({ resolver: pods }),
    discovery: { dns: { client: () => dns, clusterDomain: 'cluster.local', namespace: 'web' } },
  });
  client = new Client(ADDRESS, credentials.createInsecure(), channels.optionsFor(ADDRESS));
});
afterEach(() => {
  client.close();
  vi.useRealTimers();
});

async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** Waits for what a module may have to be loaded for, which takes many turns on a busy machine. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

it('a channel whose host is no Service yet is balanced once it is one, although nothing asks for its name again', async () => {
  dns.answers[NAME] = 'ESERVFAIL';
  client.getChannel().getConnectivityState(true);
  await pass(0);
  await until(() => resolved[0]?.lookups === 1);
  expect(resolved.map(({ lookups, isDestroyed }) => [lookups, isDestroyed])).toEqual([[1, false]]);
  dns.answers[NAME] = ['10.0.0.1'];
  await pass(40_000);
  await until(() => pods.watchers === 1);
  expect(resolved.map(({ lookups, isDestroyed }) => [lookups, isDestroyed])).toEqual([[1, true]]);
});

it('a channel that was closed asks for its name no more', async () => {
  client.getChannel().getConnectivityState(true);
  await pass(0);
  await until(() => resolved[0]?.lookups === 1);
  client.close();
  dns.answers[NAME] = ['10.0.0.1'];
  const asked = dns.asked.length;
  await pass(3_600_000);
  expect([pods.watchers, dns.asked.length]).toEqual([0, asked]);
});
