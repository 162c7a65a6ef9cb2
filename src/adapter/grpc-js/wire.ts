/** Just enough of the protobuf wire format to read two small, stable messages without a dependency. */

/** One field: a number for varint and fixed64 (read as a double), bytes for length-delimited fields; fixed32 is skipped. */
type FieldVisitor = (field: number, value: number | Buffer) => void;

/** Calls `visit` for each field, in order. Throws a RangeError for an invalid message. */
export function readFields(message: Buffer, visit: FieldVisitor): void {
  let at = 0;
  const varint = (): number => {
    // Numbers beyond 2^53 lose precision; no field we read is that large.
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = message.readUInt8(at++);
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
      if (factor >= 128 ** 9) throw new RangeError('a number of more than 10 bytes');
    }
  };
  while (at < message.length) {
    const tag = varint();
    const field = Math.floor(tag / 8);
    switch (tag % 8) {
      case 0:
        visit(field, varint());
        break;
      case 1:
        visit(field, message.readDoubleLE(at));
        at += 8;
        break;
      case 2: {
        const end = varint() + at;
        if (end > message.length) throw new RangeError('a field beyond the end');
        visit(field, message.subarray(at, end));
        at = end;
        break;
      }
      case 5:
        if (at + 4 > message.length) throw new RangeError('a field beyond the end');
        at += 4;
        break;
      default:
        throw new RangeError(`wire type ${tag % 8}`);
    }
  }
}

/** The last varint of a field; undefined if there is none. */
export function readVarintField(message: Buffer, wanted: number): number | undefined {
  let found: number | undefined;
  readFields(message, (field, value) => {
    if (field === wanted && typeof value === 'number') found = value;
  });
  return found;
}
