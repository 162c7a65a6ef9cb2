/**
 * Computes a hash of a text: MurmurHash3 (x86, 32 bits) of its UTF-8 bytes. The result is a signed integer, because V8 stores a large
 * unsigned one as an object. It must not be used for secrets: anyone can find texts with the same hash.
 * Source: Appleby, MurmurHash3 (public domain reference: "hello", seed 0 → 248bfa47).
 */
export function hash32(text: string, seed = 0): number {
  let hash = seed | 0;
  /** The bytes of the current block, how many bits of it are filled, and the total number of bytes. */
  let block = 0;
  let shift = 0;
  let bytes = 0;
  const { length } = text;
  for (let index = 0; index < length; index++) {
    let code = text.charCodeAt(index);
    if (code >= 0x80) {
      // A surrogate pair is one code point; half a pair is encoded as U+FFFD, as TextEncoder does.
      if (code >= 0xd800 && code <= 0xdfff) {
        const next = index + 1 < length ? text.charCodeAt(index + 1) : 0;
        if (code < 0xdc00 && next >= 0xdc00 && next <= 0xdfff) {
          code = 0x10000 + ((code - 0xd800) << 10) + (next - 0xdc00);
          index++;
        } else code = 0xfffd;
      }
      // This adds all bytes of a character except the last, which is added below, where characters with a single byte are added, too.
      for (let left = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3, first = true; left > 0; left--) {
        const bits = code >>> (6 * left);
        const byte = first ? (left === 1 ? 0xc0 : left === 2 ? 0xe0 : 0xf0) | bits : 0x80 | (bits & 0x3f);
        first = false;
        block |= byte << shift;
        bytes++;
        shift += 8;
        if (shift === 32) {
          hash = mixBlock(hash, block);
          block = 0;
          shift = 0;
        }
      }
      code = 0x80 | (code & 0x3f);
    }
    block |= code << shift;
    bytes++;
    shift += 8;
    if (shift === 32) {
      hash = mixBlock(hash, block);
      block = 0;
      shift = 0;
    }
  }
  if (shift > 0) hash ^= scramble(block);
  return finish(hash ^ bytes);
}

/** Mixes two hashes to a new one, which is as evenly distributed as either of them. The result is a signed integer. */
export function mix32(a: number, b: number): number {
  return finish(a ^ b);
}

function scramble(block: number): number {
  const k = Math.imul(block, 0xcc9e2d51);
  return Math.imul((k << 15) | (k >>> 17), 0x1b873593);
}

function mixBlock(hash: number, block: number): number {
  const h = hash ^ scramble(block);
  return (Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64) | 0;
}

function finish(hash: number): number {
  let h = hash;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}
