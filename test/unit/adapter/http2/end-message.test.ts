import { describe, expect, it } from 'vitest';
import { EndMessage } from '../../../../src/adapter/http2/end-message.js';

const message = (flags: number, text: string): Buffer => {
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(Buffer.byteLength(text), 1);
  return Buffer.concat([head, Buffer.from(text)]);
};

const read = (flag: number, chunks: readonly Buffer[]): string | undefined => {
  const end = new EndMessage(flag);
  for (const chunk of chunks) end.add(chunk);
  return end.text;
};

describe('the message that ends a body', () => {
  const body = Buffer.concat([message(0, 'one'), message(0, ''), message(2, '{"error":{"code":"internal"}}')]);

  it('is the one with the flag, wherever the body is divided into parts', () => {
    for (let at = 0; at <= body.length; at++) {
      expect(read(2, [body.subarray(0, at), body.subarray(at)])).toBe('{"error":{"code":"internal"}}');
    }
    expect(
      read(
        2,
        [...body].map((byte) => Buffer.from([byte])),
      ),
    ).toBe('{"error":{"code":"internal"}}');
  });

  it('of gRPC-web has a flag of its own, and may be empty', () => {
    expect(read(0x80, [message(0, 'one'), message(0x80, 'grpc-status: 14\r\n')])).toBe('grpc-status: 14\r\n');
    expect(read(2, [message(2, '')])).toBe('');
  });

  it('is not read if it is incomplete, compressed, too long or absent', () => {
    expect(read(2, [body.subarray(0, body.length - 1)])).toBeUndefined();
    expect(read(2, [message(3, '{}')])).toBeUndefined();
    expect(read(2, [message(2, 'x'.repeat(70_000))])).toBeUndefined();
    expect(read(2, [message(0, 'one')])).toBeUndefined();
    expect(read(2, [])).toBeUndefined();
  });

  it('is the first with the flag: nothing behind it is read', () => {
    const many = Array.from({ length: 100 }, (_, index) => message(2, `${index}`));
    expect(read(2, [Buffer.concat(many)])).toBe('0');
    expect(read(2, many)).toBe('0');
    expect(read(2, [message(2, '{}'), message(0, 'x'), Buffer.from([2])])).toBe('{}');
    expect(read(2, [message(3, '{}'), message(2, '{}')])).toBeUndefined();
  });

  it('is copied, so that the memory behind the parts of a body is not kept', () => {
    const end = new EndMessage(2);
    for (const byte of message(2, '{"error":{}}')) {
      const chunk = Buffer.from([byte]);
      end.add(chunk);
      chunk.fill(0);
    }
    expect(end.text).toBe('{"error":{}}');
  });
});
