import { pickFlags } from '../call/recording.js';
import { type JsonRecord, kinds, type Note, type Out, type RecordedEndpoint, UNIT } from './format.js';
import { recordsOf } from './records.js';

/** Replaces all names and addresses in a dump, consistently throughout. */
export class Pseudonyms {
  readonly #pseudonymOf = new Map<string, string>();
  readonly #counts = new Map<string, number>();
  /** For each balancer, the pseudonymous number of each key, by the key's hash. */
  readonly #keys = new Map<number, Map<number, number>>();
  #keyCount = 0;

  /** Returns a copy of a part in which names and addresses are pseudonyms. */
  rewrite(part: Uint8Array, balancer: number): Uint8Array {
    const pieces: Uint8Array[] = [];
    // A part may hold a million records. All records but those in JSON keep their length, so they are changed in one copy.
    const copy = part.slice();
    const words = new DataView(copy.buffer);
    const keys = this.#keysOf(balancer);
    let copied = 0;
    for (const { kind, at, units, flags } of recordsOf(part)) {
      const from = at * UNIT;
      if (kind === kinds.json) {
        const text = new TextDecoder().decode(
          copy.subarray(from + UNIT, from + UNIT + words.getUint32(from + 4, true)),
        );
        pieces.push(copy.subarray(copied, from), ...jsonPieces(this.#renamed(JSON.parse(text) as JsonRecord)));
        copied = from + units * UNIT;
      } else if (kind === kinds.pick && (flags & pickFlags.keyed) !== 0) {
        const hash = words.getUint32(from + 2 * UNIT, true);
        const number = keys.get(hash) ?? ++this.#keyCount;
        keys.set(hash, number);
        words.setUint32(from + 2 * UNIT, number, true);
      }
    }
    pieces.push(copy.subarray(copied));
    const whole = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const piece of pieces) {
      whole.set(piece, at);
      at += piece.length;
    }
    return whole;
  }

  #renamed(record: JsonRecord): JsonRecord {
    switch (record.k) {
      case 'start':
        return {
          ...record,
          subchannels: record.subchannels.map((each) => ({ ...each, endpoint: this.#endpoint(each.endpoint) })),
          out: record.out.map((each) => this.#out(each)),
          notes: record.notes.map(withoutText),
        };
      case 'created':
        return { ...record, endpoint: this.#endpoint(record.endpoint) };
      case 'set':
        return record.out === undefined ? record : { ...record, out: record.out.map((each) => this.#out(each)) };
      case 'note':
        return withoutText(record);
      case 'closed':
        return record;
    }
  }

  #endpoint({ key, zone, node }: RecordedEndpoint): RecordedEndpoint {
    const name = this.#name('pod', key);
    return {
      key: name,
      address: name,
      port: 0,
      name,
      ...(zone !== undefined && { zone: this.#name('zone', zone) }),
      ...(node !== undefined && { node: this.#name('node', node) }),
    };
  }

  #out({ endpoint, ...out }: Out): Out {
    return endpoint === undefined ? out : { ...out, endpoint: this.#endpoint(endpoint) };
  }

  #name(kind: string, of: string): string {
    const existing = this.#pseudonymOf.get(`${kind} ${of}`);
    if (existing !== undefined) return existing;
    const number = (this.#counts.get(kind) ?? 0) + 1;
    this.#counts.set(kind, number);
    this.#pseudonymOf.set(`${kind} ${of}`, `${kind}-${number}`);
    return `${kind}-${number}`;
  }

  #keysOf(balancer: number): Map<number, number> {
    const keys = this.#keys.get(balancer) ?? new Map<number, number>();
    this.#keys.set(balancer, keys);
    return keys;
  }
}

/** Returns a note without its text, because error messages contain addresses. */
function withoutText({ text: _text, ...note }: Note): Note {
  return note;
}

function jsonPieces(record: JsonRecord): [Uint8Array, Uint8Array] {
  const text = new TextEncoder().encode(JSON.stringify(record));
  const head = new Uint8Array(UNIT);
  const words = new DataView(head.buffer);
  words.setUint32(0, kinds.json, true);
  words.setUint32(4, text.length, true);
  const body = new Uint8Array(Math.ceil(text.length / UNIT) * UNIT);
  body.set(text);
  return [head, body];
}
