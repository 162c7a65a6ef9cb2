import { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { Pool } from 'undici';
import { describe, expect, it } from 'vitest';
import { delayEnd, Http2Pool } from '../../../../src/adapter/undici/http2.js';

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('the delayed end of an HTTP/2 socket', () => {
  it('comes once, after all that was under way; nothing else waits', async () => {
    const socket = new Socket();
    let untold = 0;
    delayEnd(socket, (ends) => {
      untold += ends;
    });
    const heard: string[] = [];
    for (const event of ['end', 'custom'] as const) socket.on(event, (value?: string) => heard.push(value ?? event));
    expect(socket.emit('end')).toBe(true);
    expect(untold).toBe(1);
    queueMicrotask(() => heard.push('a microtask'));
    process.nextTick(() => heard.push('a tick'));
    const turn = nextTurn();
    expect(socket.emit('custom', 'a value')).toBe(true);
    expect(socket.emit('nobody listens')).toBe(false);
    await turn;
    heard.push('a turn');
    await new Promise((resolve) => socket.once('end', resolve));
    expect(heard).toEqual(['a value', 'a microtask', 'a tick', 'a turn', 'end']);
    expect(untold).toBe(0);
    socket.destroy();
  });

  it('comes before the close of the socket, which then fails unfinished requests as cut off', async () => {
    const socket = new Socket();
    delayEnd(socket);
    const heard: string[] = [];
    for (const event of ['end', 'close'] as const) socket.on(event, () => heard.push(event));
    socket.on('error', ({ message }) => heard.push(message));
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.emit('end');
    socket.destroy();
    await nextTurn();
    expect(heard).toEqual([]);
    await closed;
    expect(heard).toEqual(['end', 'other side closed', 'close']);
  });

  it('holds requests back until it comes, since their session is over', async () => {
    const socket = new Socket();
    const events: string[] = [];
    socket.on('end', () => events.push('end'));
    const connect: Pool.Options['connect'] = (_options, supplied) => {
      events.push('connect');
      supplied(new Error('enough'), null);
    };
    const pool = new Http2Pool('http://orders.shop:8080', { connect }, new Pool('http://orders.shop:8080'));
    pool.addSession(socket);
    socket.emit('end');
    const answers = [1, 2].map(async (id) => {
      await pool.request({ path: '/', method: 'POST', body: 'once' }).catch(() => events.push(`answer ${id}`));
    });
    await nextTurn();
    expect(events).toEqual([]);
    await Promise.all(answers);
    expect(events[0]).toBe('end');
    expect(events.filter((event) => event.startsWith('answer'))).toHaveLength(2);
    await pool.destroy();
    socket.destroy();
  });
});

it('an HTTP/2 socket is closed once its session has ended this side, even if the pod keeps the other', async () => {
  const socket = new Duplex({ read() {}, write: (_chunk, _encoding, written) => written() });
  const pool = new Http2Pool('http://orders.shop:8080', {}, new Pool('http://orders.shop:8080'));
  pool.addSession(socket as Socket);
  const closed = new Promise((resolve) => socket.once('close', resolve));
  socket.end();
  await closed;
  await pool.destroy();
});
