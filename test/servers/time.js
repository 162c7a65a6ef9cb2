/** Time and chance where a test passes none of its own. @type {import('evenkeel').Clock} */
export const realClock = {
  now: () => performance.now(),
  timer(fn, delayMs) {
    const timeout = setTimeout(fn, delayMs).unref();
    return { cancel: () => clearTimeout(timeout), ref: () => void timeout.ref() };
  },
  defer: queueMicrotask,
};

/** @type {import('evenkeel').Rng} */
export const randomNumbers = { next: Math.random };

/** @param {import('evenkeel').Rng} rng @param {number} length */
export const drawIndex = (rng, length) => Math.floor(rng.next() * length);
