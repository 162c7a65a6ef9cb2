import { describe, expect, it } from 'vitest';
import { Chunks, compact } from '../../../../src/adapter/http2/chunks.js';

/** A body that is read, and what its owner heard of the reader. */
function start() {
  const heard: string[] = [];
  const chunks = new Chunks({
    wanted: () => void heard.push('wanted'),
    wasRead: () => void heard.push('read'),
    left: () => void heard.push('left'),
  });
  const push = (text: string): boolean => chunks.push(Buffer.from(text));
  return { chunks, heard, push };
}

/** What a call of `next` or `return` resolved to: the text of a chunk, or undefined at the end. */
async function textOf(result: Promise<IteratorResult<Uint8Array, undefined>>): Promise<string | undefined> {
  const { value, done } = await result;
  expect(done).toBe(value === undefined);
  return value && Buffer.from(value).toString();
}

const texts = (...results: Promise<IteratorResult<Uint8Array, undefined>>[]): Promise<(string | undefined)[]> =>
  Promise.all(results.map(textOf));

describe('the chunks of a response', () => {
  it('are read in their order, whether they arrive before or after they are asked for', async () => {
    const { chunks, heard, push } = start();
    push('1');
    push('2');
    const read = texts(chunks.next(), chunks.next(), chunks.next(), chunks.next(), chunks.next());
    push('3');
    push('4');
    expect(heard).toEqual([]);
    chunks.complete();
    expect(await read).toEqual(['1', '2', '3', '4', undefined]);
    expect(heard).toEqual(['read']);
    expect(await texts(chunks.next(), chunks.return(), chunks.next())).toEqual([undefined, undefined, undefined]);
    expect(heard).toEqual(['read']);
  });

  it('are read when the last one is taken, and a body without any when its end is asked for', async () => {
    const { chunks, heard, push } = start();
    push('1');
    chunks.complete();
    expect(heard).toEqual([]);
    expect(await textOf(chunks.next())).toBe('1');
    expect(heard).toEqual(['read']);
    const empty = start();
    empty.chunks.complete();
    expect(empty.heard).toEqual([]);
    expect(await textOf(empty.chunks.next())).toBeUndefined();
    expect(empty.heard).toEqual(['read']);
  });

  it('end a for await, which leaves the response if it breaks', async () => {
    const { chunks, heard, push } = start();
    push('1');
    push('2');
    for await (const chunk of chunks) {
      expect(String(chunk)).toBe('1');
      break;
    }
    expect(heard).toEqual(['left']);
    chunks.close(undefined);
    expect(await textOf(chunks.next())).toBeUndefined();
  });

  it('are left by return() even while next() waits, and when all has arrived but was not read', async () => {
    const { chunks, heard } = start();
    expect(await texts(chunks.next(), chunks.next(), chunks.return())).toEqual([undefined, undefined, undefined]);
    expect(heard).toEqual(['left']);
    const unread = start();
    unread.push('1');
    unread.chunks.complete();
    await unread.chunks.return();
    expect(unread.heard).toEqual(['left']);
  });

  it('stop with the error of the stream, which one call of next() gets', async () => {
    const failure = new Error('reset');
    const { chunks, heard, push } = start();
    push('1');
    chunks.close(failure);
    await expect(chunks.next()).rejects.toBe(failure);
    expect(await textOf(chunks.next())).toBeUndefined();
    const waiting = start();
    const [first, second] = [waiting.chunks.next(), waiting.chunks.next()];
    waiting.chunks.close(failure);
    await expect(first).rejects.toBe(failure);
    expect(await textOf(second)).toBeUndefined();
    const left = start();
    left.chunks.close(failure);
    expect(await textOf(left.chunks.return())).toBeUndefined();
    expect([...heard, ...waiting.heard, ...left.heard]).toEqual([]);
  });

  it('stop with an error if the stream closes early without one, and not if all was read', async () => {
    const { chunks } = start();
    chunks.close(undefined);
    await expect(chunks.next()).rejects.toMatchObject({ code: 'ERR_STREAM_PREMATURE_CLOSE' });
    const unread = start();
    unread.push('1');
    unread.chunks.complete();
    unread.chunks.close(undefined);
    await expect(unread.chunks.next()).rejects.toMatchObject({ code: 'ERR_STREAM_PREMATURE_CLOSE' });
    const read = start();
    read.push('1');
    read.chunks.complete();
    await read.chunks.next();
    read.chunks.close(new Error('too late'));
    expect(await textOf(read.chunks.next())).toBeUndefined();
  });

  it('are wanted again once fewer than 16 KiB wait', async () => {
    const { chunks, heard } = start();
    const asked = chunks.next();
    expect(chunks.push(Buffer.alloc(100_000))).toBe(true);
    await asked;
    expect(chunks.push(Buffer.alloc(16_383))).toBe(true);
    expect(chunks.push(Buffer.alloc(1))).toBe(false);
    expect(chunks.push(Buffer.alloc(1))).toBe(false);
    expect(heard).toEqual([]);
    await chunks.next();
    expect(heard).toEqual(['wanted']);
    await chunks.next();
    await chunks.next();
    expect(heard).toEqual(['wanted']);
  });

  it('keep little more than themselves in memory', () => {
    const read = Buffer.alloc(65_536, 'x').buffer;
    const few = Buffer.from(read, 100, 3);
    expect(compact(few)).toEqual(few);
    expect(compact(few).buffer.byteLength).toBeLessThan(read.byteLength);
    const many = Buffer.from(read, 100, 10_000);
    expect(compact(many)).toBe(many);
  });
});
