import { describe, expect, it } from 'vitest';
import { BalancerFixture } from '../../support/fixtures/balancer-fixture.js';

/** What of options JavaScript lets through that the types do not. */
describe('call options of a balancer', () => {
  const wrong = [
    [
      'acquire',
      { sginal: AbortSignal.abort() },
      'acquire has no option "sginal" (did you mean "signal"?); it knows key, avoid, signal, timeoutMs',
    ],
    ['acquire', { timeout: 5 }, 'acquire has no option "timeout" (did you mean "timeoutMs"?)'],
    ['acquire', null, 'acquire must be an object, got null'],
    ['acquire', 'shop', 'acquire must be an object, got "shop"'],
    ['ready', { timeoutMs: 5 }, 'ready has no option "timeoutMs"; it knows signal'],
    ['ready', null, 'ready must be an object, got null'],
    [
      'close',
      { signall: AbortSignal.abort() },
      'close has no option "signall" (did you mean "signal"?); it knows signal',
    ],
    ['close', 5_000, 'close must be an object, got 5000'],
  ] as const;

  it.each(wrong)('%s(%o) rejects', async (method, options, message) => {
    const fixture = new BalancerFixture();
    const call = fixture.balancer[method] as (options: unknown) => Promise<unknown>;
    await expect(call.call(fixture.balancer, options)).rejects.toMatchObject({
      code: 'EVENKEEL_OPTION',
      message: expect.stringContaining(message),
    });
    // Nothing was done.
    expect(fixture.balancer.snapshot()).toMatchObject({ state: 'starting', waiting: 0, counts: { refused: 0 } });
    await fixture.balancer.close();
  });
});
