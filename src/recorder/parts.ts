import { type Configuration, UNIT } from './format.js';

/** Records one balancer, and writes the parts of its recording. */
export interface PartWriter {
  readonly name: string;
  readonly configuration: Configuration;
  readonly isClosed: boolean;
  readonly nowMs: number;
  /** Updates how much of the writer's current part is used. */
  touch(): void;
}

/** A part of a recording, which can be read without the other parts. */
export interface Part {
  readonly track: PartWriter;
  readonly buffer: ArrayBuffer;
  /** How many units of the part are used. */
  units: number;
  readonly fromMs: number;
  toMs: number;
}

/** The size of a balancer's first part, in bytes, and the largest share of all memory that one part may have. */
const FIRST_BYTES = 64 * 1024;
const LARGEST_SHARE = 1 / 4;

/** The memory of a recorder: the parts of all its balancers, within one limit. The oldest parts are dropped first. */
export class Parts {
  /** How long a part of a recording is kept after its end, in ms. */
  readonly keepMs: number;
  readonly #bytes: number;
  #allocated = 0;
  /** The complete parts, oldest first. */
  readonly #done: Part[] = [];
  readonly #current = new Set<Part>();
  /** The buffers of parts of the recording that were dropped. New parts reuse them. */
  readonly #spare: ArrayBuffer[] = [];

  constructor(bytes: number, keepMs: number) {
    this.#bytes = bytes;
    this.keepMs = keepMs;
  }

  /** All parts of the recording in the order in which they began, without those that ended more than `keepMs` ago. */
  get all(): readonly Part[] {
    for (const { track } of this.#current) track.touch();
    const kept = this.#done.filter(({ track, toMs }) => toMs >= track.nowMs - this.keepMs);
    return [...kept, ...this.#current];
  }

  /**
   * Returns memory for a new part.
   * @param least The smallest size of the part, in units.
   * @param wanted The preferred size; 0 = the smallest.
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

  /** Marks a part as complete: nothing more is written to it. */
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
