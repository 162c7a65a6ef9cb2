import { expect, it } from 'vitest';
import { buildPackage, outputOf } from '../../support/programs/programs.js';

it('examples/llm: with prefixKey() more turns find their conversation cached', async () => {
  await buildPackage();
  const stdout = await outputOf(['examples/llm/demo.js']);
  const cached = (line: string) => Number(new RegExp(`${line} +(\\d+) % cached`).exec(stdout)?.[1]);
  // Of 100 conversations a pod caches 12, so chance finds one of eight; by key nearly all are found but the first turns.
  expect(cached('by load alone:')).toBeLessThan(40);
  expect(cached('with prefixKey\\(\\):')).toBeGreaterThan(60);
}, 300_000);
