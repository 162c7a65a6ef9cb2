import { checkStart } from './checked.js';
import { type JsonRecord, kinds, type Start, UNIT, unreadable } from './format.js';
import { number, object } from './read-dump.js';
import { bits, type RecordPlace, recordsOf } from './records.js';

/** Reads the records of a part of a recording. Offsets are in units. */
export class PartReader {
  readonly #view: DataView;
  readonly #records: Iterator<RecordPlace>;

  constructor(part: Uint8Array<ArrayBuffer>) {
    this.#view = new DataView(part.buffer, part.byteOffset, part.byteLength);
    this.#records = recordsOf(part);
  }

  /**
   * Reads the state at the beginning of the part, and where the numbers of its loads are. Throws EVENKEEL_RECORDING if the part is
   * malformed.
   */
  start(): { readonly start: Start; readonly numbersAt: number } {
    const first = this.next();
    if (first?.kind !== kinds.json) throw unreadable('a part has no beginning');
    const start = checkStart(this.json(first));
    const second = this.next();
    if (second?.kind !== kinds.numbers) throw unreadable('a part has no numbers');
    const needed = start.memory + start.fields * start.subchannels.length;
    if (needed > second.number) throw unreadable('a part has too few numbers');
    return { start, numbersAt: second.at + 1 };
  }

  /** Reads the next record of the part; undefined at its end. Throws EVENKEEL_RECORDING if the record is malformed. */
  next(): RecordPlace | undefined {
    return (this.#records.next() as IteratorResult<RecordPlace, undefined>).value;
  }

  json({ at, number: length }: RecordPlace): JsonRecord {
    const bytes = new Uint8Array(this.#view.buffer, this.#view.byteOffset + (at + 1) * UNIT, length);
    return object(JSON.parse(new TextDecoder().decode(bytes)), 'record') as unknown as JsonRecord;
  }

  /** Reads the time at an offset, in ms. Throws EVENKEEL_RECORDING if it is not finite. */
  time(at: number): number {
    return number(this.number(at), 'time');
  }

  number(at: number): number {
    return this.#view.getFloat64(at * UNIT, true);
  }

  numbers(at: number, count: number): number[] {
    return Array.from({ length: count }, (_, index) => this.number(at + index));
  }

  /** Reads the fields of a load report: one number for each bit of `mask`. */
  fields(at: number, mask: number): number[] {
    return this.numbers(at, bits(mask));
  }

  word(at: number): number {
    return this.#view.getUint32(at * UNIT, true);
  }

  /** Reads the numbers of subchannels, two in each unit. */
  ids(at: number, count: number): number[] {
    return Array.from({ length: count }, (_, index) => this.#view.getUint32(at * UNIT + 4 * index, true));
  }
}
