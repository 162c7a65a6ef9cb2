import { beforeAll, expect, it } from 'vitest';
import { buildPackage, outputOf } from '../../support/programs/programs.js';

/**
 * The most of 500 requests that one of five pods may get: with round robin its fifth, and otherwise no more than if each request drew
 * its pod at random. Then the busiest one gets more than 140, which is 4.5 standard deviations, once in 50,000 runs. Through a Service it
 * usually gets 115 to 160 with HTTP/1.1, and 460 with HTTP/2.
 */
const most = { random: 140, roundRobin: 103 };

beforeAll(buildPackage);

it('examples/http2-pins: requests are spread evenly over five pods, with HTTP/2 as with HTTP/1.1', async () => {
  const stdout = await outputOf(['examples/http2-pins/main.js', '--requests=500']);
  const rows = stdout.trim().split('\n');
  const countsOf = (row: string): number[] => row.trim().split(/\s+/).slice(-5).map(Number);
  for (const row of rows)
    expect(
      countsOf(row).reduce((all, one) => all + one, 0),
      row,
    ).toBe(500);

  const ours = rows.filter((row) => row.includes(' evenkeel'));
  const hasHttp2 = Number(process.versions.node.split('.')[0]) >= 22;
  expect(ours).toHaveLength(hasHttp2 ? 6 : 2);
  for (const row of ours) {
    const spoken = row.includes('evenkeel, HTTP/2') ? 'HTTP/2.0' : 'HTTP/1.1';
    expect(row).toContain(` ${spoken} `);
    const limit = row.includes('roundRobin()') ? most.roundRobin : most.random;
    expect(Math.max(...countsOf(row)), row).toBeLessThanOrEqual(limit);
  }
});
