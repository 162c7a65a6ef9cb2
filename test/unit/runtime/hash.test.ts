import { describe, expect, it } from 'vitest';
import { hash32, mix32 } from '../../../src/runtime/hash.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';

/** The reference algorithm over bytes, written straight from its description, to compare with. */
function reference(bytes: Uint8Array, seed: number): number {
  const rotate = (value: number, by: number): number => (value << by) | (value >>> (32 - by));
  let h = seed | 0;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const blocks = bytes.length >> 2;
  for (let block = 0; block < blocks; block++) {
    let k = Math.imul(view.getUint32(block * 4, true), 0xcc9e2d51);
    k = Math.imul(rotate(k, 15), 0x1b873593);
    h = (Math.imul(rotate(h ^ k, 13), 5) + 0xe6546b64) | 0;
  }
  let k = 0;
  for (let byte = bytes.length - 1; byte >= blocks * 4; byte--) k = (k << 8) | (bytes[byte] as number);
  if ((bytes.length & 3) !== 0) h ^= Math.imul(rotate(Math.imul(k, 0xcc9e2d51), 15), 0x1b873593);
  h ^= bytes.length;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}

describe('hash32', () => {
  // Published values of MurmurHash3 x86 32.
  it.each([
    ['', 0, 0x00000000],
    ['', 1, 0x514e28b7],
    ['', 0xffffffff, 0x81f16f39],
    ['hello', 0, 0x248bfa47],
    ['hello, world', 0, 0x149bbb7f],
    ['The quick brown fox jumps over the lazy dog', 0, 0x2e4ff723],
  ])('%j with seed %i has the known hash', (text, seed, expected) => {
    expect((hash32(text, seed) >>> 0).toString(16)).toBe(expected.toString(16));
  });

  it('hashes the UTF-8 bytes of any text', () => {
    const encoder = new TextEncoder();
    const rng = seededRng(1);
    const alphabet = ['a', 'ß', '€', '😀', '\ud800', '\udc00', '\u0000', '\u07ff', '\u0800', '\uffff', '\u{10ffff}'];
    for (let round = 0; round < 2_000; round++) {
      let text = '';
      for (let left = (rng.next() * 12) | 0; left > 0; left--) text += alphabet[(rng.next() * alphabet.length) | 0];
      expect(hash32(text, round), JSON.stringify(text)).toBe(reference(encoder.encode(text), round));
    }
  });

  it('mixes pairs evenly', () => {
    const counts = new Array<number>(16).fill(0);
    for (let a = 0; a < 200; a++) {
      for (let b = 0; b < 200; b++) {
        const bucket = mix32(hash32(`endpoint-${a}`), hash32(`key-${b}`)) >>> 28;
        counts[bucket] = (counts[bucket] as number) + 1;
      }
    }
    // 2,500 each, standard deviation 48: five of them.
    for (const count of counts) expect(Math.abs(count - 2_500)).toBeLessThan(240);
  });
});
