import { describe, expect, it } from 'vitest';
import { LineError, LineReader } from '../../../../../src/resolver/kubernetes/api/line-reader.js';
import { drawIndex } from '../../../../../src/runtime/rng.js';
import { seededRng } from '../../../../../src/testing/seeded-rng.js';

function reader(maxBytes?: number): { lines: string[]; reader: LineReader } {
  const lines: string[] = [];
  return { lines, reader: new LineReader((line) => lines.push(line), maxBytes) };
}

describe('LineReader', () => {
  it('W7: a line may span chunks, and chunks may end inside a UTF-8 character', () => {
    const text = ['{"name":"größe"}', '', '{"name":"😀 日本"}', '{"x":1}'];
    const bytes = Buffer.from(`${text.join('\n')}\n`);
    const rng = seededRng(2);
    for (let round = 0; round < 500; round++) {
      const { lines, reader: each } = reader();
      for (let start = 0; start < bytes.length; ) {
        const length = 1 + drawIndex(rng, 7);
        each.push(bytes.subarray(start, start + length));
        start += length;
      }
      expect(lines).toEqual(text);
      expect(each.midLine).toBe(false);
    }
  });

  it('knows whether it is inside a line', () => {
    const { reader: each, lines } = reader();
    each.push(Buffer.from('a\nb'));
    expect([lines, each.midLine]).toEqual([['a'], true]);
    each.push(Buffer.from('\n'));
    expect(each.midLine).toBe(false);
  });

  it('refuses a line that is too long, however it arrives', () => {
    const { reader: each } = reader(10);
    each.push(Buffer.from('0123456789\n'));
    each.push(Buffer.from('01234'));
    expect(() => each.push(Buffer.from('567890'))).toThrow(LineError);
    const { reader: whole } = reader(10);
    expect(() => whole.push(Buffer.from('01234567890\n'))).toThrow(LineError);
  });

  it('keeps no chunk that it was given: one buffer may deliver them all, byte by byte', () => {
    const { lines, reader: each } = reader();
    const piece = new Uint8Array(1);
    for (const byte of Buffer.from('{"a":1}\n{"größe":2}\n')) {
      piece[0] = byte;
      each.push(piece);
    }
    expect(lines).toEqual(['{"a":1}', '{"größe":2}']);
  });

  it('accepts lines of up to 4 MiB', () => {
    const { lines, reader: each } = reader();
    each.push(Buffer.alloc(4 * 1024 * 1024, 'x'));
    each.push(Buffer.from('\n'));
    expect(lines[0]?.length).toBe(4 * 1024 * 1024);
    each.push(Buffer.alloc(4 * 1024 * 1024, 'x'));
    expect(() => each.push(Buffer.from('x'))).toThrow(LineError);
  });

  it('refuses invalid UTF-8, rather than turn one name into another', () => {
    const { reader: each, lines } = reader();
    expect(() => each.push(Buffer.of(0x61, 0xff, 0x0a))).toThrow(LineError);
    expect(lines).toEqual([]);
  });

  it('reads nothing more once it has thrown', () => {
    const lines: string[] = [];
    const each = new LineReader((line) => {
      if (line === 'bad') throw new Error('bad');
      lines.push(line);
    });
    expect(() => each.push(Buffer.from('good\nbad\nlost\n'))).toThrow('bad');
    expect(() => each.push(Buffer.from('late\n'))).toThrow(LineError);
    expect(lines).toEqual(['good']);
  });
});
