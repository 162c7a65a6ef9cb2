// @ts-check
/** What loads look like, and how long things take on the screen. */

// The even share fills a third, so there is room to show three times as much.
export const EVEN_FILL = 1 / 3;
export const HIGH_RATIO = 1.3;
export const OVER_RATIO = 1.75;
export const FLIGHT_MS = 720;
export const LOST_MS = 1_000;

/** How a load compares with the even share, in a word. @param {number} ratio @returns {'low' | 'even' | 'high' | 'over'} */
export function levelOf(ratio) {
  if (ratio >= OVER_RATIO) return 'over';
  if (ratio >= HIGH_RATIO) return 'high';
  return ratio < 0.3 ? 'low' : 'even';
}
