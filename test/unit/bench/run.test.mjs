import { execFileSync, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const program = fileURLToPath(new URL('../../bench/run.mjs', import.meta.url));

it('npm run bench -- --help lists the benchmarks and runs none', () => {
  const text = execFileSync(process.execPath, [program, '--help'], { encoding: 'utf8', timeout: 60_000 });
  expect(text).toContain('npm run bench -- --quick');
  expect(text).toContain('http takes 15 minutes at most');
  expect(text).toMatch(/There are: fleet, fleet-grpc, fleet-postgres, pick, http, /);
});

it.each(['pick', 'grpc', 'fleet connect', 'grpc connect --quick'])(
  'npm run bench -- --write %s runs nothing: it would write part of a page, or one from too few rounds',
  (rest) => {
    const { status, stderr } = spawnSync(process.execPath, [program, '--write', ...rest.split(' ')], {
      encoding: 'utf8',
      timeout: 60_000,
    });
    expect([status, stderr]).toEqual([2, expect.stringContaining('--write takes all benchmarks, or all of a page')]);
  },
);
