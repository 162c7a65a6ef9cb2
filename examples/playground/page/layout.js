// @ts-check
/** Where things are in a scene, in CSS pixels. */

/** @typedef {ReturnType<typeof layoutOf>} Layout */

/** @param {number} width @param {number} height */
export function layoutOf(width, height) {
  const small = height < 230;
  const seaY = height - (small ? 20 : 34);
  const hullHeight = Math.min(Math.max(height * 0.15, 26), 56);
  const deckY = seaY - hullHeight * 0.62;
  const tankTop = small ? 58 : 104;
  // A narrow one leaves room for the words beside the bow.
  const half = Math.min(width * (width < 430 ? 0.43 : 0.455), 430);
  return {
    width,
    height,
    small,
    seaY,
    hullHeight,
    deckY,
    clientY: small ? 11 : 18,
    serviceY: small ? 34 : 60,
    // Higher ones would lean out of a narrow scene.
    tankHeight: Math.max(Math.min(deckY - tankTop, half * (width < 500 ? 1.2 : 1.5)), 20),
    /** Half of the ship's length. */
    half,
    /** The deck between bridge and bow, from the ship's middle. */
    deckFrom: -half * 0.74,
    deckTo: half * 0.86,
  };
}

/** Centre and width of each of `count` tanks, from the ship's middle. @param {Layout} layout @param {number} count @param {number} index */
export function berthOf({ deckFrom, deckTo, small }, count, index) {
  const slot = (deckTo - deckFrom) / Math.max(count, 3);
  return {
    x: (deckFrom + deckTo) / 2 + (index - (count - 1) / 2) * slot,
    width: Math.min(slot * 0.74, small ? 60 : 90),
  };
}

/** A point of the heeling ship as it is on the screen. @param {Layout} layout @param {number} heel @param {number} x from the middle @param {number} y on the upright ship */
export function onScreen({ width, seaY }, heel, x, y) {
  const cos = Math.cos(heel);
  const sin = Math.sin(heel);
  return { x: width / 2 + x * cos - (y - seaY) * sin, y: seaY + x * sin + (y - seaY) * cos };
}
