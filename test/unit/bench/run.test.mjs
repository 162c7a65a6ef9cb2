import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const program = fileURLToPath(new URL('../../bench/run.mjs', import.meta.url));

it('npm run bench -- --help lists the benchmarks and runs none', () => {
  const text = execFileSync(process.execPath, [program, '--help'], { encoding: 'utf8', timeout: 60_000 });
  expect(text).toContain('npm run bench -- --quick');
  expect(text).toContain('http takes 15 minutes at most');
  expect(text).toMatch(/There are: fleet, fleet-grpc, fleet-postgres, pick, http, /);
});
