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

it('npm run bench -- --write --quick runs nothing: it would write figures from too few rounds', () => {
  const { status, stderr } = spawnSync(process.execPath, [program, '--write', '--quick', 'pick'], {
    encoding: 'utf8',
    timeout: 60_000,
  });
  expect([status, stderr]).toEqual([2, expect.stringContaining('--write takes benchmarks at their full length')]);
});
