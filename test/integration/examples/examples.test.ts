/** Examples of tasks that have no folder of their own here: each runs as its README says. */
import { beforeAll, expect, it } from 'vitest';
import { noPostgres, titled } from '../../support/databases/postgres.js';
import { buildPackage, outputOf } from '../../support/programs/programs.js';

beforeAll(buildPackage);

it('examples/llm: most turns of a conversation reach the pod that has it cached', async () => {
  const stdout = await outputOf(['examples/llm/main.js']);
  const [byLoad = 0, byKey = 0] = [...stdout.matchAll(/: +(\d+) % cached, answered after/g)].map(([, share]) =>
    Number(share),
  );
  // One pod in eight has it.
  expect(byLoad, stdout).toBeLessThan(40);
  expect(byKey, stdout).toBeGreaterThan(60);
});

it('examples/server: a pod says how busy it is, and one that leaves loses no request', async () => {
  const stdout = await outputOf(['examples/server/main.js']);
  expect(stdout).toMatch(/^anna says: TEXT named_metrics\.evenkeel_in_flight=\d+$/m);
  for (const how of ['with reports', 'calls in flight only']) {
    const [, counts = ''] = new RegExp(`^${how}: +\\{ (.*) \\}$`, 'm').exec(stdout) ?? [];
    const sum = [...counts.matchAll(/\d+/g)].reduce((all, [count]) => all + Number(count), 0);
    expect(sum, stdout).toBe(200);
  }
  expect(stdout).toMatch(/^bert leaves: +50 of 50 POSTs were answered, exit code 0$/m);
});

it('examples/tracing: a retry and a hedge are two attempts each, with their pods and reasons', async () => {
  const stdout = await outputOf(['examples/tracing/main.js']);
  const [retry = '', hedge = ''] = stdout.split('a hedge\n');
  expect(retry).toMatch(/attempts 2\n +evenkeel attempt: name orders-1, reason first, outcome reset\n +GET\n/);
  expect(retry).toMatch(/ evenkeel attempt: name orders-2, reason retry, outcome success\n +GET\n/);
  expect(hedge).toMatch(/attempts 2\n +evenkeel attempt: name orders-1, reason first, outcome cancelled\n/);
  expect(hedge).toMatch(/ evenkeel attempt: name orders-2, reason hedge, outcome success\n +GET\n/);
});

it.skipIf(noPostgres)(
  titled('examples/postgres: reads go on while a standby is killed, then the primary, and another is promoted'),
  async () => {
    const stdout = await outputOf(['examples/postgres/main.js']);
    expect(stdout).toMatch(/^an order: +pg-0, 99 left$/m);
    expect(stdout).toMatch(/^a standby was promoted: +pg-1, 98 left$/m);
    expect(stdout).toMatch(/^it is back, as a standby: +\{ 'pg-0': \d+, 'pg-2': \d+ \}$/m);
    expect(stdout).toMatch(/^reads that failed: +0$/m);
  },
);
