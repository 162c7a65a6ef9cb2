import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, it } from 'vitest';

const program = fileURLToPath(new URL('support/worker.mjs', import.meta.url));
let child: ChildProcess | undefined;
afterEach(async () => {
  if (child === undefined) return;
  child.disconnect();
  await once(child, 'exit');
});

it('the workers of a cluster do not report their own requests as those of the pod', async () => {
  child = fork(program, [], { execArgv: [] });
  const [{ port }] = (await once(child, 'message')) as [{ port: number }];
  for (let time = 0; time < 10; time++) {
    const { status, headers } = await fetch(`http://127.0.0.1:${port}/`, {
      headers: { 'endpoint-load-metrics-format': 'TEXT' },
    });
    expect(status).toBe(200);
    expect([...headers.keys()].filter((name) => /report|load-metrics/.test(name))).toEqual([]);
  }
});
