import { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { tellEndLate } from '../../../../src/adapter/undici/late-end.js';

describe('the end of a socket that is told late', () => {
  it('comes after all that was under way, once; nothing else waits', async () => {
    const socket = new Socket();
    tellEndLate(socket);
    const heard: string[] = [];
    for (const event of ['end', 'custom'] as const) socket.on(event, (value?: string) => heard.push(value ?? event));
    expect(socket.emit('end')).toBe(true);
    queueMicrotask(() => heard.push('a microtask'));
    process.nextTick(() => heard.push('a tick'));
    const turn = new Promise((resolve) => setImmediate(resolve));
    expect(socket.emit('custom', 'a value')).toBe(true);
    expect(socket.emit('nobody listens')).toBe(false);
    await turn;
    heard.push('a turn');
    await new Promise((resolve) => socket.once('end', resolve));
    expect(heard).toEqual(['a value', 'a microtask', 'a tick', 'a turn', 'end']);
    socket.destroy();
  });
});
