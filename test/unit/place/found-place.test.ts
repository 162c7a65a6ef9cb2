import { describe, expect, it } from 'vitest';
import { ordinalOf, placeOfPm2 } from '../../../src/place/found-place.js';

describe('the ordinal in a host name', () => {
  it.each([
    ['orders-0', 0],
    ['orders-worker-17', 17],
    ['orders-3.orders.shop.svc.cluster.local', 3],
    ['orders-7d9f8b6c5-x2x4z', undefined],
    ['orders', undefined],
    ['orders-', undefined],
    ['17', undefined],
    ['orders-1234567', undefined],
  ])('%s: %s', (host, ordinal) => {
    expect(ordinalOf(host)).toBe(ordinal);
  });
});

describe('the place given by PM2', () => {
  it('is read from the environment of the process', () => {
    expect(placeOfPm2({ pm_id: '5', NODE_APP_INSTANCE: '2', instances: '4' })).toEqual({ index: 2, count: 4 });
  });

  it.each([
    {},
    { NODE_APP_INSTANCE: '2', instances: '4' },
    { pm_id: '5', NODE_APP_INSTANCE: '2' },
    { pm_id: '5', instances: '4' },
    { pm_id: '5', NODE_APP_INSTANCE: '4', instances: '4' },
    { pm_id: '5', NODE_APP_INSTANCE: '2', instances: 'max' },
    { pm_id: '5', NODE_APP_INSTANCE: '', instances: '' },
  ])('does not exist for %j', (env) => {
    expect(placeOfPm2(env)).toBeUndefined();
  });
});
