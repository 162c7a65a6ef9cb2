import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PING_MS, watchSilence } from '../../../../src/adapter/undici/http2.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';

let clock: FakeClock;
let received: number | undefined;
let deaths: number[];
let endWatch: () => void;

beforeEach(() => {
  clock = new FakeClock();
  received = 0;
  deaths = [];
  endWatch = watchSilence(
    clock,
    () => received,
    (silentMs) => deaths.push(silentMs),
  );
});
afterEach(() => endWatch());

describe('watchSilence', () => {
  it('reports a connection as dead after three PINGs without a byte', () => {
    clock.advance(3 * PING_MS);
    expect(deaths).toEqual([]);
    clock.advance(PING_MS);
    expect(deaths).toEqual([3 * PING_MS]);
  });

  it('starts again with every byte', () => {
    for (let ping = 0; ping < 20; ping++) {
      if (ping % 3 === 0) received = (received ?? 0) + 17;
      clock.advance(PING_MS);
    }
    expect(deaths).toEqual([]);
  });

  it('does not count the time without a connection', () => {
    received = undefined;
    clock.advance(20 * PING_MS);
    received = 100;
    clock.advance(3 * PING_MS);
    expect(deaths).toEqual([]);
  });

  it('checks once after a blocked event loop, however long that was', async () => {
    clock.advance(PING_MS);
    await clock.stall(100 * PING_MS);
    received = 17;
    clock.advance(3 * PING_MS);
    expect(deaths).toEqual([]);
  });

  it('reports nothing after its end', () => {
    endWatch();
    clock.advance(100 * PING_MS);
    expect(deaths).toEqual([]);
    expect(clock.nextInMs).toBeUndefined();
  });
});
