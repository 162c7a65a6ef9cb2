import { expect, it } from 'vitest';
import { ReportAsking } from '../../../src/adapter/kit/report-asking.js';

/** As the path of a request has it. */
function asks(asking: ReportAsking): boolean {
  if (--asking.passing >= 0) return false;
  asking.asked();
  return true;
}

const asked = (asking: ReportAsking, requests: number): number =>
  Array.from({ length: requests }, () => asks(asking)).filter(Boolean).length;

it('the first requests ask, then one in 64, and all of them while there are reports', () => {
  const asking = new ReportAsking();
  expect(asked(asking, 8)).toBe(8);
  expect(asked(asking, 640)).toBe(10);
  asking.heard();
  expect(asked(asking, 256)).toBe(256);
  for (let request = 0; request < 1_000; request++) {
    asking.heard();
    expect(asks(asking)).toBe(true);
  }
  asked(asking, 255);
  expect(asked(asking, 640)).toBe(10);
});
