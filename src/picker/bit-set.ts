/** A set of small integers below a fixed size. */
export class BitSet {
  /** The bits of the set: bit `n & 31` of word `n >> 5` says whether the number `n` is in the set. */
  readonly words: Int32Array;

  constructor(size: number) {
    this.words = new Int32Array((size + 31) >> 5);
  }

  has(n: number): boolean {
    return ((this.words[n >> 5] as number) & (1 << (n & 31))) !== 0;
  }

  add(n: number): void {
    this.words[n >> 5] = (this.words[n >> 5] as number) | (1 << (n & 31));
  }

  delete(n: number): void {
    this.words[n >> 5] = (this.words[n >> 5] as number) & ~(1 << (n & 31));
  }

  /** Adds `n` to the set if `present`, otherwise deletes it. */
  set(n: number, present: boolean): void {
    if (present) this.add(n);
    else this.delete(n);
  }

  clear(): void {
    this.words.fill(0);
  }

  /** Makes this set a copy of `other`, which has the same size. */
  copy(other: BitSet): void {
    this.words.set(other.words);
  }
}
