import type { Rng } from '../runtime/rng.js';

/** A random source whose state can be stored and restored. Source: sfc32 (Doty-Humphrey, PractRand), as `systemRng`. Not for secrets. */
export class RecordedRng implements Rng {
  /** Four words. */
  readonly state: Int32Array = new Int32Array(4);

  /** @param seed Provides the initial state. */
  constructor(seed?: Rng) {
    if (seed === undefined) return;
    for (let word = 0; word < 4; word++) this.state[word] = seed.next() * 4_294_967_296;
    this.state[3] = 1;
    // The first numbers depend on few bits of the seed.
    for (let turn = 0; turn < 12; turn++) this.next();
  }

  next(): number {
    const { state } = this;
    const b = state[1] as number;
    const c = state[2] as number;
    const counter = state[3] as number;
    const sum = ((state[0] as number) + b + counter) | 0;
    state[0] = b ^ (b >>> 9);
    state[1] = c + (c << 3);
    state[2] = ((c << 21) | (c >>> 11)) + sum;
    state[3] = counter + 1;
    return (sum >>> 0) / 4_294_967_296;
  }
}
