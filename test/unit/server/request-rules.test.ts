import { expect, it } from 'vitest';
import { RequestRules } from '../../../src/server/request-rules.js';

it('rules of an application that are async by mistake, or throw, say nothing and end no process', async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown): void => void unhandled.push(reason);
  process.on('unhandledRejection', note);
  const rejecting = async (): Promise<never> => Promise.reject(new Error('broken'));
  const throwing = (): never => {
    throw new Error('broken');
  };
  for (const rule of [rejecting, throwing]) {
    const rules = new RequestRules({ priority: rule, trust: rule, unlimited: rule } as never);
    expect(rules.priority({} as never, 'critical')).toBeUndefined();
    expect(rules.isUnlimited({} as never)).toBe(false);
  }
  await new Promise((resolve) => setImmediate(resolve));
  process.off('unhandledRejection', note);
  expect(unhandled).toEqual([]);
});
