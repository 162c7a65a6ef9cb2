import { type Configuration, UNIT } from './format.js';

/** Who writes parts: the recording of a balancer. */
export interface PartWriter {
  readonly name: string;
  readonly configuration: Configuration;
  readonly isClosed: boolean;
  readonly nowMs: number;
  /** Says how far its current part has got. */
  touch(): void;
}

/** A part of a recording. */
export interface Part {
  readonly track: PartWriter;
  readonly buffer: ArrayBuffer;
  /** How much of it is used, in units. */
  units: number;
  readonly fromMs: number;
  toMs: number;
}

/** The first part of a balancer, and none is larger than this share of all memory. */
const FIRST_BYTES = 64 * 1024;
const LARGEST_SHARE = 1 / 4;

/** The memory of a recorder: parts of all its balancers, within one bound. The oldest make room. */
export class Parts {
  /** How long a part is kept after its end, in ms. */
  readonly keepMs: number;
  readonly #bytes: number;
  #allocated = 0;
  /** Those that are complete, the oldest first. */
  readonly #done: Part[] = [];
  readonly #current = new Set<Part>();
  /** Memory to use again. */
  readonly #spare: ArrayBuffer[] = [];

  constructor(bytes: number, keepMs: number) {
    this.#bytes = bytes;
    this.keepMs = keepMs;
  }

  /** All parts, in the order they began; those that ended too long ago are not among them. */
  get all(): readonly Part[] {
    for (const { track } of this.#current) track.touch();
    const kept = this.#done.filter(({ track, toMs }) => toMs >= track.nowMs - this.keepMs);
    return [...kept, ...this.#current];
  }

  /**
   * @param least What it must hold, in units.
   * @param wanted What would be good; 0 = the smallest.
   * @returns Undefined if there is no room.
   */
  take(track: PartWriter, least: number, wanted: number, nowMs: number): Part | undefined {
    const largest = Math.floor(this.#bytes * LARGEST_SHARE);
    if (least * UNIT > largest) return undefined;
    const bytes = Math.min(largest, powerOfTwo(Math.max(FIRST_BYTES, least * UNIT, wanted * UNIT)));
    const buffer = this.#room(bytes - (bytes % UNIT));
    if (buffer === undefined) return undefined;
    const part: Part = { track, buffer, units: 0, fromMs: nowMs, toMs: nowMs };
    this.#current.add(part);
    return part;
  }

  /** Nothing more is written to it. */
  done(part: Part): void {
    if (!this.#current.delete(part)) return;
    this.#done.push(part);
    while (this.#done[0] !== undefined && this.#done[0].toMs < this.#done[0].track.nowMs - this.keepMs) this.#drop();
  }

  #room(bytes: number): ArrayBuffer | undefined {
    for (;;) {
      const spare = this.#spare.findIndex(({ byteLength }) => byteLength === bytes);
      if (spare !== -1) return this.#spare.splice(spare, 1)[0];
      if (this.#allocated + bytes <= this.#bytes) {
        this.#allocated += bytes;
        return new ArrayBuffer(bytes);
      }
      const other = this.#spare.shift();
      if (other !== undefined) this.#allocated -= other.byteLength;
      else if (this.#done.length > 0) this.#drop();
      else return undefined;
    }
  }

  #drop(): void {
    const part = this.#done.shift();
    if (part !== undefined) this.#spare.push(part.buffer);
  }
}

function powerOfTwo(least: number): number {
  let size = FIRST_BYTES;
  while (size < least) size *= 2;
  return size;
}
