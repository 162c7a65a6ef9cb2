// @ts-check
/**
 * When requests are due: a Poisson process with a seed, so that two processes with the same seed, rate and start send at the same
 * moments. Open loop: a slow answer does not delay the next request.
 */

/** Mulberry32: a small seeded generator, uniform in [0, 1). @param {number} seed */
export function seededRandom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Milliseconds since 1970, finer than Date.now() and steady; comparable between processes of one machine. */
export const epochNow = () => performance.timeOrigin + performance.now();

// A process that was stopped for longer than this (a suspended laptop) skips what it missed instead of sending a flood.
const SKIP_AFTER_MS = 1_000;

/**
 * Calls `send` at each due moment, with that moment. Returns a function that stops it.
 *
 * @param {object} options
 * @param {number} options.startAt epoch ms
 * @param {number} options.perSecond
 * @param {number} options.seed
 * @param {(dueAt: number) => void} options.send
 */
export function startArrivals({ startAt, perSecond, seed, send }) {
  const random = seededRandom(seed);
  const nextGap = () => (-Math.log(1 - random()) * 1_000) / perSecond;
  let due = startAt + nextGap();
  /** @type {NodeJS.Timeout} */
  let timer;

  const pump = () => {
    const now = epochNow();
    while (due <= now) {
      if (now - due < SKIP_AFTER_MS) send(due);
      due += nextGap();
    }
    timer = setTimeout(pump, due - now);
  };
  timer = setTimeout(pump, Math.max(0, due - epochNow()));
  return () => clearTimeout(timer);
}
