import { expect, it } from 'vitest';
import type { Endpoint } from '../../../../../src/endpoint/endpoint.js';
import type { Unchecked } from '../../../../../src/resolver/kubernetes/api/unchecked.js';
import { type EndpointSlice, parseSlice } from '../../../../../src/resolver/kubernetes/slices/endpoint-slice.js';

import { PublishedSet } from '../../../../../src/resolver/kubernetes/slices/published-set.js';
import { FakeClock } from '../../../../../src/testing/fake-clock.js';

it('W6: a pod of two addresses that is not ready any longer leaves in the same turn, also if its IPv4 entry went just before', () => {
  const clock = new FakeClock();
  let version = 0;
  let isStarted = false;
  let published: readonly Endpoint[] = [];
  const set = new PublishedSet(clock, (endpoints) => {
    published = endpoints;
  });
  set.choose({ families: ['IPv4', 'IPv6'], ports: () => [{ port: 80 }], accepts: () => true });
  const put = (name: string, pods: string): void => {
    const endpoints = pods
      .split(' ')
      .filter(Boolean)
      .map((pod) => ({
        addresses: [name === 'v6' ? `fd00::${pod[0]}` : `10.0.0.${pod[0]}`],
        conditions: { ready: pod[1] === 'R', serving: pod[1] === 'R' },
        targetRef: { uid: `u${pod[0]}` },
      }));
    const metadata = { name, resourceVersion: String(++version), labels: { 'kubernetes.io/service-name': 'orders' } };
    const slice = parseSlice(
      { metadata, addressType: name === 'v6' ? 'IPv6' : 'IPv4', endpoints } as Unchecked,
      'orders',
    ) as EndpointSlice;
    set.put(name, slice);
    if (isStarted) set.settle();
  };
  put('v4', '1R 2R');
  put('v6', '1R 2R');
  isStarted = true;
  set.settle();
  clock.advance(1_000);
  put('v4', '1R 2R 3R'); // published at once: the pace begins
  put('v4', '2R 3R'); // the IPv4 entry of pod 1 goes
  put('v6', '1N 2R'); // and its IPv6 entry says: not ready
  const seen = published.find(({ uid }) => uid === 'u1')?.conditions.ready;
  clock.advance(50);
  expect(seen).toBe(false);
});
