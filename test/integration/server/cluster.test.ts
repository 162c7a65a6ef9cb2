import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { request } from 'node:http';
import { fileURLToPath } from 'node:url';
import { parseLoadReport } from 'evenkeel/adapter';
import { afterEach, describe, expect, it } from 'vitest';
import { until } from '../../support/until.js';

const program = fileURLToPath(new URL('support/worker.mjs', import.meta.url));
let child: ChildProcess | undefined;
afterEach(async () => {
  if (child === undefined) return;
  child.disconnect();
  await once(child, 'exit');
});

async function start(...args: string[]): Promise<number> {
  child = fork(program, args, { execArgv: [] });
  const [{ port }] = (await once(child, 'message')) as [{ port: number }];
  return port;
}

async function ask(port: number): Promise<{ readonly inFlight: number | undefined; readonly worker: string }> {
  const answer = await fetch(`http://127.0.0.1:${port}/`, { headers: { 'endpoint-load-metrics-format': 'TEXT' } });
  const report = parseLoadReport(answer.headers.get('endpoint-load-metrics') ?? '');
  return { inFlight: report?.namedMetrics?.evenkeel_in_flight, worker: await answer.text() };
}

describe('the workers of a cluster', () => {
  it('report the requests of all workers', async () => {
    const port = await start('adds-up');
    const hanging = Array.from({ length: 12 }, () =>
      request({ port, host: '127.0.0.1', path: '/hang' })
        .on('error', () => {})
        .end(),
    );
    const workers = new Set<string>();
    await until('each worker says 13', async () => {
      const { inFlight, worker } = await ask(port);
      if (inFlight === 13) workers.add(worker);
      return workers.size === 3;
    });
    for (const one of hanging) one.destroy();
    await until('none is left', async () => (await ask(port)).inFlight === 1);
  });

  it('do not report their own requests as the total where the primary adds nothing up', async () => {
    const port = await start();
    for (let time = 0; time < 10; time++) expect((await ask(port)).inFlight).toBeUndefined();
  });
});
