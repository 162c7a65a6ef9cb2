import { expect, it } from 'vitest';
import { checkRuntime } from '../../../../src/adapter/undici/check-version.js';

it('an undici that sends requests past us is refused, with the version that works', () => {
  const advice = /createFetch works on Node\.js only: .*\. evenkeel\/node-http works there/;
  for (const versions of [{ bun: '1.4.5' }, { deno: '2.9.6' }]) {
    expect(() => checkRuntime('createFetch', { node: '26.3.0', ...versions })).toThrow(advice);
  }
  expect(() => checkRuntime('createFetch', { node: '26.3.0' })).not.toThrow();
  expect(() => checkRuntime('createFetch')).not.toThrow();
});
