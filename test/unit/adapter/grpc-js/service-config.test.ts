import { describe, expect, it } from 'vitest';
import { Method, mergeServiceConfig } from '../../../../src/adapter/grpc-js/service-config.js';

const merge = (config?: object) => mergeServiceConfig(config && JSON.stringify(config), 'evenkeel');

describe('a service config of the application', () => {
  it('gets our policy before its own, and loses nothing', () => {
    const retryThrottling = { maxTokens: 10, tokenRatio: 0.1 };
    expect(merge()).toEqual({ loadBalancingConfig: [{ evenkeel: {} }], methodConfig: [] });
    expect(merge({ loadBalancingConfig: [{ round_robin: {} }], retryThrottling })).toEqual({
      loadBalancingConfig: [{ evenkeel: {} }, { round_robin: {} }],
      methodConfig: [],
      retryThrottling,
    });
  });

  it('that names our policy itself is left as it is', () => {
    const loadBalancingConfig = [{ outlier_detection: { child_policy: [{ evenkeel: {} }] } }];
    expect(merge({ loadBalancingConfig }).loadBalancingConfig).toEqual(loadBalancingConfig);
  });

  it('has its timeouts converted to the form that grpc-js wants', () => {
    const of = (timeout: unknown) => merge({ methodConfig: [{ name: [{}], timeout }] }).methodConfig[0]?.timeout;
    expect(of('2s')).toEqual({ seconds: 2, nanos: 0 });
    expect(of('1.5s')).toEqual({ seconds: 1, nanos: 500_000_000 });
    expect(of('0.000000001s')).toEqual({ seconds: 0, nanos: 1 });
    expect(of({ seconds: 3, nanos: 4 })).toEqual({ seconds: 3, nanos: 4 });
    expect(merge({ methodConfig: [{ name: [{}] }] }).methodConfig[0]).toEqual({ name: [{}] });
  });
});

describe('the method configuration', () => {
  const timeout = (seconds: number) => ({ timeout: { seconds, nanos: 0 } });
  const config = merge({
    methodConfig: [
      { name: [{}], ...timeout(1) },
      { name: [{ service: 'shop.Orders' }], ...timeout(2) },
      { name: [{ service: 'shop.Other' }, { service: 'shop.Orders', method: 'Get' }], ...timeout(3) },
    ],
  });

  it.each([
    ['/shop.Orders/Get', 3],
    ['/shop.Orders/List', 2],
    ['/shop.Other/List', 3],
    ['/shop.Third/Get', 1],
  ])('for %s is the most specific one', (path, seconds) => {
    expect(new Method(path, config).config.timeout?.seconds).toBe(seconds);
  });

  it.each([{ hedgingPolicy: { maxAttempts: 2 } }, { retryPolicy: { maxAttempts: 2 } }])(
    'keeps retries and hedges as the caller wants them: %j',
    (policy) => {
      const method = new Method('/a/b', merge({ methodConfig: [{ name: [{}], ...policy }] }));
      expect(method.config).toEqual({ name: [{}], ...policy });
      expect(method.repeatsRefusedOnly).toBe(false);
    },
  );

  it('is empty where nothing matches, except that refused calls are repeated', () => {
    const { config: empty, repeatsRefusedOnly } = new Method('/a/b', merge());
    expect(empty).toMatchObject({ name: [], retryPolicy: { initialBackoff: '0s' } });
    expect(repeatsRefusedOnly).toBe(true);
  });
});
