import { afterEach, expect, it } from 'vitest';
import { relativeLatency } from '../../../src/load/relative-latency.js';
import { p2c } from '../../../src/picker/p2c.js';
import { preferenceOrder } from '../../../src/picker/preference-order.js';
import { BalancerFixture } from '../../support/fixtures/balancer-fixture.js';

let fixture: BalancerFixture;
afterEach(() => fixture.balancer.close());

const places = (): (number | undefined)[] => fixture.balancer.snapshot().endpoints.map(({ place }) => place);

it('gives the place of each endpoint while the picker keeps an order, and how many were raised', async () => {
  fixture = new BalancerFixture({ picker: preferenceOrder(), load: relativeLatency() });
  await fixture.publish('10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.4');
  expect([...places()].sort()).toEqual([1, 2, 3, 4]);
  expect(fixture.balancer.snapshot().raises).toBe(0);
  // Three take turns.
  await fixture.publish('10.0.0.1', '10.0.0.2', '10.0.0.3');
  expect(new Set(places())).toEqual(new Set([undefined]));
  expect(fixture.balancer.snapshot().raises).toBeUndefined();
});

it('gives none with another picker', async () => {
  fixture = new BalancerFixture({ picker: p2c(), load: relativeLatency() });
  await fixture.publish('10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.4');
  expect(places()).toEqual([undefined, undefined, undefined, undefined]);
  expect(fixture.balancer.snapshot().raises).toBeUndefined();
});
