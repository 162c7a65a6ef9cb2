import { expect, it } from 'vitest';
import { buildPackage, outputOf } from '../../support/programs/programs.js';

it('examples/tracing: a retry and a hedge are attempts of one call, each with its pod and its request', async () => {
  await buildPackage();
  const stdout = await outputOf(['examples/tracing/main.js']);
  const attempt = (pod: string, rest: string) => `    evenkeel attempt: name ${pod}, ${rest}\n      GET\n`;
  const call = '  evenkeel GET: outcome success, attempts 2\n';
  const [, retry = '', hedge = ''] = /^a retry\n([\s\S]*)a hedge\n([\s\S]*)$/.exec(stdout) ?? [];
  expect(retry.startsWith(call) && hedge.startsWith(call), stdout).toBe(true);
  expect(retry).toContain(attempt('orders-1', 'reason first, outcome reset'));
  expect(retry).toContain(attempt('orders-2', 'reason retry, outcome success'));
  expect(hedge).toContain(attempt('orders-1', 'reason first, outcome cancelled'));
  expect(hedge).toContain(attempt('orders-2', 'reason hedge, outcome success'));
});
