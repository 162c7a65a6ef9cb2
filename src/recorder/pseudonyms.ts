import { pickFlags } from '../balancer/recording.js';
import { type JsonRecord, kinds, type Note, type Out, type RecordedEndpoint, UNIT } from './format.js';
import { recordsOf } from './records.js';

/** Replaces all names, consistently throughout a dump. */
export class Pseudonyms {
  readonly #given = new Map<string, string>();
  readonly #counts = new Map<string, number>();
  readonly #keys = new Map<string, number>();

  /** A copy of the part with pseudonyms. */
  rewrite(part: Uint8Array, balancer: number): Uint8Array {
    const pieces: Uint8Array[] = [];
    for (const { kind, at, units, flags } of recordsOf(part)) {
      const bytes = part.slice(at * UNIT, (at + units) * UNIT);
      const words = new DataView(bytes.buffer);
      if (kind === kinds.json) {
        const text = new TextDecoder().decode(bytes.subarray(UNIT, UNIT + words.getUint32(4, true)));
        pieces.push(...jsonPieces(this.#renamed(JSON.parse(text) as JsonRecord)));
        continue;
      }
      if (kind === kinds.pick && (flags & pickFlags.keyed) !== 0) {
        words.setUint32(2 * UNIT, this.#key(`${balancer}:${words.getUint32(2 * UNIT, true)}`), true);
      }
      pieces.push(bytes);
    }
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
    const known = this.#given.get(`${kind} ${of}`);
    if (known !== undefined) return known;
    const number = (this.#counts.get(kind) ?? 0) + 1;
    this.#counts.set(kind, number);
    this.#given.set(`${kind} ${of}`, `${kind}-${number}`);
    return `${kind}-${number}`;
  }

  #key(of: string): number {
    const number = this.#keys.get(of) ?? this.#keys.size + 1;
    this.#keys.set(of, number);
    return number;
  }
}

/** Error messages contain addresses. */
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
