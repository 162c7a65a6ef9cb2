import { expect, it } from 'vitest';
import { deadlineOption } from '../../../../src/adapter/http/request-deadline.js';
import { type TermRules, termsOf } from '../../../../src/adapter/http/request-terms.js';
import { Propagation } from '../../../../src/adapter/kit/propagation.js';

const serving = (served: object | undefined): Propagation =>
  new Propagation({ context: { current: () => served as never } });
const none = { key: undefined, priority: undefined, ownMs: undefined, inheritedMs: undefined };

it('a request asks for nothing without rules, outside of a request that is being served', () => {
  for (const propagation of [undefined, new Propagation({}), serving(undefined)]) {
    expect(termsOf({}, {}, propagation)).toEqual(none);
  }
});

it('a request has what its rules say, and inherits the rest', () => {
  const rules: TermRules<string> = {
    key: (name) => `key of ${name}`,
    priority: () => 'critical',
    deadlineMs: () => 50,
  };
  const propagation = serving({ remainingMs: 20, priority: 'sheddable' });
  expect(termsOf('a', rules, propagation)).toEqual({
    key: 'key of a',
    priority: 'critical',
    ownMs: 50,
    inheritedMs: 20,
  });
  expect(termsOf('a', {}, propagation)).toEqual({ ...none, priority: 'sheddable', inheritedMs: 20 });
  expect(termsOf('a', { key: () => null, priority: () => undefined }, undefined)).toEqual(none);
});

it('an invalid priority, or a rule that throws, is the error of the request', () => {
  expect(() => termsOf({}, { priority: () => 'urgent' as never }, undefined)).toThrow(/priority must be one of/);
  const key = (): never => {
    throw new Error('broken');
  };
  expect(() => termsOf({}, { key }, undefined)).toThrow('broken');
});

it('what is a promise by mistake may reject, and ends no process', async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown): void => void unhandled.push(reason);
  process.on('unhandledRejection', note);
  const rejecting = (async () => Promise.reject(new Error('broken'))) as never;
  const deadlineMs = deadlineOption().check('deadlineMs', rejecting);
  expect(termsOf({}, { key: rejecting }, serving(Promise.reject(new Error('broken'))))).toMatchObject({
    ownMs: undefined,
  });
  expect(() => termsOf({}, { priority: rejecting }, undefined)).toThrow(/priority must be one of/);
  expect(() => termsOf({}, { deadlineMs }, undefined)).toThrow(/deadlineMs\(\) must be/);
  await new Promise((resolve) => setImmediate(resolve));
  process.off('unhandledRejection', note);
  expect(unhandled).toEqual([]);
});
