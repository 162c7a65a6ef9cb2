import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { Pods } from '../../support/pods/pods.js';
import { runProgram } from '../../support/programs/consumer.js';
import { buildPackage } from '../../support/programs/programs.js';

// Installed by `node scripts/matrix.mjs bun deno`.
const installed = JSON.parse(process.env.EVENKEEL_PEERS ?? '{}') as Record<string, string>;
const program = fileURLToPath(new URL('program.mjs', import.meta.url));
const root = fileURLToPath(new URL('../../..', import.meta.url));

const runtimes = [
  { name: 'Bun', binary: 'bin/bun', args: [], folder: installed['@oven/bun-linux-x64'] },
  { name: 'Deno', binary: 'deno', args: ['run', '-A'], folder: installed['@deno/linux-x64-glibc'] },
];

for (const { name, binary, args, folder = '' } of runtimes) {
  const path = join(folder, binary);
  const isThere = folder !== '' && existsSync(path);
  const why = isThere ? '' : ' (skipped: not installed; scripts/matrix.mjs does that)';
  it.skipIf(!isThere)(`${name}: evenkeel/node-http balances, evenkeel/undici refuses${why}`, async () => {
    await buildPackage();
    await using pods = await Pods.start(2);
    const ports = pods.endpoints.map(({ port }) => String(port));
    const { stdout, stderr, code } = await runProgram(path, [...args, program, ...ports], root);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    const { refused, pods: served } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
    const makers = ['createFetch', 'createDispatcher', 'createAppAgent', 'appInterceptor'];
    expect(refused).toEqual(makers.map((maker) => `${maker} EVENKEEL_OPTION true`));
    expect(Object.keys(served).sort()).toEqual(['pod-0 orders.shop:8080', 'pod-1 orders.shop:8080']);
  });
}
