import { expect, it } from 'vitest';
import { RunningStatement } from '../../../../src/adapter/mysql2/statement.js';

it('a stream leaves its connection alone once the answer has ended, because another statement may run there', async () => {
  let resumed = 0;
  let running: RunningStatement<unknown> | undefined;
  const statement = RunningStatement.start<unknown>((started) => {
    running = started;
  });
  const stream = statement.stream({ highWaterMark: 1 });
  running?.settle();
  running?.began({ pause: () => {}, resume: () => resumed++ });
  running?.fields([]);
  for (const id of [1, 2, 3]) running?.row({ id }, 0);
  running?.answered(null, undefined, undefined);
  const before = resumed;
  expect(await stream.toArray()).toEqual([{ id: 1 }, { id: 2 }, { id: 3 }]);
  expect(resumed).toBe(before);
});
