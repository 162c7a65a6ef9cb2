import { describe, expect, it } from 'vitest';
import { CallConfigs, mergeServiceConfig } from '../../../../src/adapter/grpc-js/service-config.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';

const merge = (config?: object) => mergeServiceConfig(config && JSON.stringify(config), 'evenkeel');

describe('a service config of the user', () => {
  it('gets our policy in front of its own, and loses nothing', () => {
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

  it('has its time-outs in the form grpc-js wants', () => {
    const of = (timeout: unknown) => merge({ methodConfig: [{ name: [{}], timeout }] }).methodConfig[0]?.timeout;
    expect(of('2s')).toEqual({ seconds: 2, nanos: 0 });
    expect(of('1.5s')).toEqual({ seconds: 1, nanos: 500_000_000 });
    expect(of('0.000000001s')).toEqual({ seconds: 0, nanos: 1 });
    expect(of({ seconds: 3, nanos: 4 })).toEqual({ seconds: 3, nanos: 4 });
    expect(merge({ methodConfig: [{ name: [{}] }] }).methodConfig[0]).toEqual({ name: [{}] });
  });
});

const channel = { name: 'orders.shop:50051', service: 'orders.shop:50051', clock: new FakeClock() };

describe('the configuration of a method', () => {
  const timeout = (seconds: number) => ({ timeout: { seconds, nanos: 0 } });
  const configs = new CallConfigs(
    merge({
      methodConfig: [
        { name: [{}], ...timeout(1) },
        { name: [{ service: 'shop.Orders' }], ...timeout(2) },
        { name: [{ service: 'shop.Other' }, { service: 'shop.Orders', method: 'Get' }], ...timeout(3) },
      ],
    }),
    channel,
  );
  const secondsOf = (path: string) => configs.invoke(path).methodConfig.timeout?.seconds;

  it('is the most specific one', () => {
    expect(secondsOf('/shop.Orders/Get')).toBe(3);
    expect(secondsOf('/shop.Orders/List')).toBe(2);
    expect(secondsOf('/shop.Other/List')).toBe(3);
    expect(secondsOf('/shop.Third/Get')).toBe(1);
  });

  it('is empty where nothing fits', () => {
    expect(new CallConfigs(merge(), channel).invoke('/a/b').methodConfig).toEqual({ name: [] });
  });

  it('comes with one object per call, which every attempt shows to the picker', () => {
    const first = configs.invoke('/shop.Orders/Get');
    const second = configs.invoke('/shop.Orders/Get');
    expect(first.pickInformation).toBe(first.dynamicFilterFactories[0]);
    expect(first.pickInformation).not.toBe(second.pickInformation);
    configs.unref();
    expect(secondsOf('/shop.Orders/Get')).toBe(3);
  });
});
