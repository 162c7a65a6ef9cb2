import { expect, it } from 'vitest';
import { TokenBucket } from '../../../src/runtime/token-bucket.js';

const takeAll = (bucket: TokenBucket, nowMs: number): number => {
  let taken = 0;
  while (taken < 1_000 && bucket.take(nowMs)) taken++;
  return taken;
};

it('pays for a burst at once, then for so many a second', () => {
  const bucket = new TokenBucket(10, 20);
  expect(takeAll(bucket, 5_000)).toBe(10);
  expect(takeAll(bucket, 5_049)).toBe(0);
  expect(takeAll(bucket, 5_500)).toBe(10);
  expect(takeAll(bucket, 5_600)).toBe(2);
});

it('saves up no more than a burst, and time that runs backwards costs nothing', () => {
  const bucket = new TokenBucket(3, 1);
  expect(takeAll(bucket, 0)).toBe(3);
  expect(takeAll(bucket, 60_000)).toBe(3);
  expect(takeAll(bucket, 1_000)).toBe(0);
});

it('says how long the next token takes, and gets back one that shall not count', () => {
  const bucket = new TokenBucket(2, 50);
  takeAll(bucket, 0);
  expect(bucket.waitMs).toBe(20);
  bucket.giveBack();
  expect(bucket.take(0)).toBe(true);
  expect(bucket.take(0)).toBe(false);
});
