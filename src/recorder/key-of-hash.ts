import { hash32 } from '../runtime/hash.js';

/** The inverses of MurmurHash3's multipliers, modulo 2^32. */
const [INVERSE_1, INVERSE_2, INVERSE_3, INVERSE_4, INVERSE_5] = [0xcc9e2d51, 0x1b873593, 5, 0x85ebca6b, 0xc2b2ae35].map(
  inverse,
) as [number, number, number, number, number];

/** Finds a text whose `hash32` is `hash`, because recordings contain hashes instead of keys. */
export function keyOfHash(hash: number): string {
  const wanted = unfinish(hash | 0) ^ 8;
  for (let first = 0; ; first++) {
    // The text has four characters below 128, then four that compensate for them in the hash.
    const block = 0x20202020 + (first & 15) + (((first >> 4) & 15) << 8) + (((first >> 8) & 15) << 16);
    const second = unscramble(unmix(wanted) ^ mixed(block));
    if ((second & 0x80808080) !== 0) continue;
    const key = textOf(block) + textOf(second);
    if (hash32(key) === (hash | 0)) return key;
    if (first > 4_096) return key;
  }
}

function mixed(block: number): number {
  const k = Math.imul(block, 0xcc9e2d51);
  const h = Math.imul((k << 15) | (k >>> 17), 0x1b873593);
  return (Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64) | 0;
}

function unmix(hash: number): number {
  const h = Math.imul(hash - 0xe6546b64, INVERSE_3);
  return (h >>> 13) | (h << 19);
}

function unscramble(scrambled: number): number {
  const k = Math.imul(scrambled, INVERSE_2);
  return Math.imul((k >>> 15) | (k << 17), INVERSE_1);
}

function unfinish(hash: number): number {
  let h = hash ^ (hash >>> 16);
  h = Math.imul(h, INVERSE_5);
  h ^= (h >>> 13) ^ (h >>> 26);
  h = Math.imul(h, INVERSE_4);
  return h ^ (h >>> 16);
}

function textOf(block: number): string {
  return String.fromCharCode(block & 127, (block >>> 8) & 127, (block >>> 16) & 127, (block >>> 24) & 127);
}

/** The inverse of an odd number modulo 2^32, by Newton's iteration: each step doubles the number of correct bits. */
function inverse(odd: number): number {
  let x = odd;
  for (let step = 0; step < 5; step++) x = Math.imul(x, 2 - Math.imul(odd, x));
  return x;
}
