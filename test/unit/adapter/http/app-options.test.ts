import { expect, it, vi } from 'vitest';
import { resolveAppOptions } from '../../../../src/adapter/http/app-options.js';

it('an async function for the options of Services is refused, and its rejection ends no process', async () => {
  const rejected = Promise.reject(new Error('later'));
  const caught = vi.spyOn(rejected, 'catch');
  const { optionsOf } = resolveAppOptions(
    { options: (() => rejected) as never },
    { names: [], tlsNames: [], plainNames: [], check: () => {} },
  );
  expect(() => optionsOf(new URL('http://orders.shop'))).toThrow('options() must be options, not a promise of them');
  expect(caught).toHaveBeenCalledOnce();
});
