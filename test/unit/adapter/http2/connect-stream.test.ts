import { once } from 'node:events';
import type { ClientHttp2Stream } from 'node:http2';
import { Writable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { ConnectStream } from '../../../../src/adapter/http2/connect-stream.js';

/** Stands for a stream of Node's: what was written to it, and how it was ended. */
class FakeNative extends Writable {
  readonly written: string[] = [];
  readonly codes: (number | undefined)[] = [];

  constructor() {
    super({ autoDestroy: false });
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, written: () => void): void {
    this.written.push(String(chunk));
    written();
  }

  close(code?: number): void {
    this.codes.push(code);
  }
}

/** A stream, what its call heard of the caller, and what the caller heard of the stream. */
function start() {
  const heard: string[] = [];
  const stream = new ConnectStream({
    dropped: () => void heard.push('dropped'),
    wanted: () => void heard.push('wanted'),
  });
  const events: string[] = [];
  for (const name of ['end', 'close']) stream.on(name, () => events.push(name));
  stream.on('error', ({ message }: Error) => events.push(message));
  const attach = (): FakeNative => {
    const native = new FakeNative();
    stream.attach(native as unknown as ClientHttp2Stream);
    return native;
  };
  /** Resolves with the code of the error, if there is one, once the chunk counts as written. */
  const write = (text: string | Buffer): Promise<unknown> =>
    new Promise((resolve) => {
      stream.write(Buffer.from(text), 'binary', (error) => resolve(error && (error as NodeJS.ErrnoException).code));
    });
  return { stream, heard, events, attach, write };
}

describe('the stream of a call of Connect', () => {
  it('sends what was written to every stream of Node until the response begins', async () => {
    const { stream, attach, write } = start();
    await write('1');
    const first = attach();
    await write('2');
    stream.end();
    expect(first.written).toEqual(['1', '2']);
    expect(first.writableEnded).toBe(true);
    expect(stream.isRepeatable).toBe(true);
    stream.detach();
    const second = attach();
    expect(second.written).toEqual(['1', '2']);
    expect(second.writableEnded).toBe(true);
    stream.answered();
    expect(stream.isRepeatable).toBe(false);
  });

  it('keeps no more than 64 KiB: a larger body waits for a stream of Node, and cannot be sent again', async () => {
    const { stream, attach, write } = start();
    let isWritten = false;
    const large = write(Buffer.alloc(70_000)).then(() => {
      isWritten = true;
    });
    await new Promise(setImmediate);
    expect(isWritten).toBe(false);
    attach();
    await large;
    expect(stream.isRepeatable).toBe(false);
  });

  it('refuses what is written too late with the codes of Node', async () => {
    const ended = start();
    ended.stream.end();
    expect(await ended.write('late')).toBe('ERR_STREAM_WRITE_AFTER_END');
    const over = start();
    over.stream.push(null);
    await over.stream[Symbol.asyncIterator]().next();
    over.stream.finished(0);
    expect(await over.write('late')).toBe('ERR_STREAM_WRITE_AFTER_END');
    const destroyed = start();
    destroyed.stream.destroy();
    expect(await destroyed.write('late')).toBe('ERR_STREAM_DESTROYED');
    const waiting = start();
    const large = waiting.write(Buffer.alloc(70_000));
    waiting.stream.destroy(Object.assign(new Error('gone'), { code: 'GONE' }));
    expect(await large).toBe('GONE');
  });

  it('closes once the response was read', async () => {
    const { stream, events } = start();
    const chunks = stream[Symbol.asyncIterator]();
    stream.push(Buffer.from('1'));
    stream.push(null);
    stream.finished(0);
    await new Promise(setImmediate);
    expect([events, stream.closed]).toEqual([[], false]);
    expect(String((await chunks.next()).value)).toBe('1');
    await once(stream, 'close');
    expect(events).toEqual(['end', 'close']);
    expect((await chunks.next()).done).toBe(true);
  });

  it('emits its error before the reader gets it, and then close', async () => {
    const { stream, heard, events } = start();
    const read = stream[Symbol.asyncIterator]()
      .next()
      .catch(({ message }: Error) => events.push(`read: ${message}`));
    stream.failed(2, new Error('reset'));
    expect(events).toEqual([]);
    await read;
    expect(events).toEqual(['reset', 'close', 'read: reset']);
    expect([stream.rstCode, stream.closed, heard]).toEqual([2, true, ['dropped']]);
    stream.destroy(new Error('again'));
    await new Promise(setImmediate);
    expect(events).toHaveLength(3);
  });

  it('passes the code of close() on, and closes at once while there is no stream of Node', async () => {
    const running = start();
    const native = running.attach();
    running.stream.close(8);
    running.stream.close(2);
    expect([native.codes, running.stream.rstCode, running.heard]).toEqual([[8], 8, ['dropped']]);
    expect([running.stream.closed, running.stream.destroyed]).toEqual([true, false]);
    const waiting = start();
    await new Promise<void>((resolve) => waiting.stream.close(8, resolve));
    expect([waiting.events, waiting.stream.rstCode]).toEqual([['close'], 8]);
  });

  it('is destroyed with the stream of Node when its reader leaves', async () => {
    const { stream, heard, attach } = start();
    const native = attach();
    stream.push(Buffer.from('1'));
    for await (const chunk of stream) {
      expect(String(chunk)).toBe('1');
      break;
    }
    expect([native.destroyed, stream.destroyed, heard]).toEqual([true, true, ['dropped']]);
  });
});
