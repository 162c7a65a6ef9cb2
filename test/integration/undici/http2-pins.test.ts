import { beforeAll, expect, it } from 'vitest';
import { buildPackage, outputOf } from '../../support/programs/programs.js';

beforeAll(buildPackage);

it('examples/http2-pins: requests are even over five pods, whatever Node offers', async () => {
  const stdout = await outputOf(['examples/http2-pins/main.js', '--requests=500']);
  const counts = (how: string): number[] => {
    const line = stdout.split('\n').find((text) => text.includes(` ${how} `)) ?? '';
    return line.trim().split(/\s+/).slice(-5).map(Number);
  };
  const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);
  expect(sum(counts('stock'))).toBe(500);
  for (const [how, most] of [
    ['evenkeel', 200],
    ['evenkeel, roundRobin()', 150],
  ] as const) {
    expect(sum(counts(how)), how).toBe(500);
    expect(Math.max(...counts(how)), how).toBeLessThanOrEqual(most);
  }
});
