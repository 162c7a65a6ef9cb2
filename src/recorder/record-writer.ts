import type { RecordedSubchannel } from '../pool/subchannel-recording.js';
import { type JsonRecord, kinds, UNIT } from './format.js';

/** Writes records into a part, one after the other. Writing allocates nothing, except for records in JSON. */
export class RecordWriter {
  /** The next free unit of the part. */
  at = 0;
  /** How many units the part has; 0 = there is no part. */
  size = 0;
  #words = new Uint32Array(0);
  #numbers = new Float64Array(0);
  readonly #makeRoom: (units: number) => boolean;

  /** @param makeRoom Called when a record does not fit into the part: opens another part, and returns whether the record fits now. */
  constructor(makeRoom: (units: number) => boolean) {
    this.#makeRoom = makeRoom;
  }

  /** Begins to write into another part; undefined means that there is none. */
  open(buffer: ArrayBuffer | undefined): void {
    this.at = 0;
    this.size = buffer === undefined ? 0 : buffer.byteLength / UNIT;
    if (buffer === undefined) return;
    this.#words = new Uint32Array(buffer);
    this.#numbers = new Float64Array(buffer);
  }

  /** Writes the first unit of a record; `more` is how many units follow. Returns false if the record does not fit. */
  begin(kind: number, flags: number, id: number, number: number, more = 0): boolean {
    if (!this.fits(1 + more)) return false;
    const { at } = this;
    this.#words[2 * at] = kind | (flags << 4) | (id << 12);
    this.#words[2 * at + 1] = number;
    this.at = at + 1;
    return true;
  }

  fits(units: number): boolean {
    return this.at + units <= this.size || this.#makeRoom(units);
  }

  /** Writes a number of a record, which takes one unit. */
  number(value: number): void {
    this.#numbers[this.at++] = value;
  }

  /** Writes a word of a record, which takes one unit. */
  word(value: number): void {
    this.#words[2 * this.at] = value;
    this.#words[2 * this.at + 1] = 0;
    this.at++;
  }

  /** Writes four words of a record, which take two units. */
  fourWords(words: Int32Array): void {
    for (let index = 0; index < 4; index++) this.#words[2 * this.at + index] = words[index] as number;
    this.at += 2;
  }

  /** Writes the numbers of subchannels, which take half a unit each. */
  ids(subchannels: Iterable<RecordedSubchannel>, count: number): void {
    let at = 2 * this.at;
    for (const { recordedAs } of subchannels) this.#words[at++] = recordedAs;
    this.at += halved(count);
  }

  /**
   * Writes the fields of a load report whose bits are in `mask`, preceded by the time in a record of kind `report`. Returns false if the
   * record does not fit.
   */
  fields(kind: number, id: number, mask: number, values: Float64Array, nowMs: number): boolean {
    if (!this.begin(kind, mask, id, 0, values.length + 1)) return false;
    if (kind === kinds.report) this.number(nowMs);
    for (let bit = 0; bit < values.length; bit++) {
      if ((mask & (1 << bit)) !== 0) this.number(values[bit] as number);
    }
    return true;
  }

  numbers(values: Float64Array): void {
    if (!this.begin(kinds.numbers, 0, 0, values.length, values.length)) return;
    this.#numbers.set(values, this.at);
    this.at += values.length;
  }

  json(record: JsonRecord): void {
    this.text(encoded(record));
  }

  /**
   * Writes a change that has just been made. If that begins a new part, the change is already in the state with which the part starts, and
   * is not written again.
   */
  change(record: JsonRecord): void {
    const bytes = encoded(record);
    const part = this.#words;
    if (this.fits(1 + Math.ceil(bytes.length / UNIT)) && this.#words === part) this.text(bytes);
  }

  /** Writes a record in JSON that is already encoded. */
  text(bytes: Uint8Array): void {
    const units = Math.ceil(bytes.length / UNIT);
    if (!this.begin(kinds.json, 0, 0, bytes.length, units)) return;
    new Uint8Array(this.#words.buffer).set(bytes, this.at * UNIT);
    this.at += units;
  }
}

export function encoded(record: JsonRecord): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(record));
}

/** How many units the numbers of `count` subchannels take. */
export function halved(count: number): number {
  return (count + 1) >> 1;
}
