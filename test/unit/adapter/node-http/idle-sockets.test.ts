import type { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { IdleSockets } from '../../../../src/adapter/node-http/idle-sockets.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';

let clock: FakeClock;
let network: FakeClock;
let idle: IdleSockets;
/** How long sockets the pod ended had been idle, in ms. */
let ended: number[];

/** A stream stands in for a socket: what it is written comes as data. */
const open = (): Socket => {
  const socket = new PassThrough() as unknown as Socket;
  idle.watch(socket);
  return socket;
};
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

beforeEach(() => {
  clock = new FakeClock();
  ended = [];
  network = new FakeClock();
  idle = new IdleSockets(clock, network);
  vi.spyOn(idle.trial, 'ended').mockImplementation((idleMs) => void ended.push(idleMs));
});

describe('sockets that are idle', () => {
  it('are closed each at its own time, with one timer for all', () => {
    const [first, second, third] = [open(), open(), open()];
    idle.add(first, 1_000);
    clock.advance(400);
    idle.add(second, 1_000);
    idle.add(third, 200);
    expect(clock.timers).toBe(1);
    clock.advance(200);
    expect([first.destroyed, second.destroyed, third.destroyed]).toEqual([false, false, true]);
    clock.advance(400);
    expect([first.destroyed, second.destroyed]).toEqual([true, false]);
    clock.advance(400);
    expect(second.destroyed).toBe(true);
    expect(clock.timers).toBe(0);
  });

  it('report for how long they were idle, until that is too long', () => {
    const socket = open();
    expect(idle.idleMs(socket)).toBeUndefined();
    idle.add(socket, 1_000);
    clock.advance(300);
    expect(idle.idleMs(socket)).toBe(300);
    idle.remove(socket);
    expect(idle.idleMs(socket)).toBeUndefined();
    expect(idle.idleMs(new PassThrough() as unknown as Socket)).toBeUndefined();
  });

  it('are reported when the pod closes them, while those in use are not', async () => {
    const [first, second] = [open(), open()];
    idle.add(first, 1_000);
    network.advance(3);
    clock.advance(100);
    expect(idle.restedMs(first)).toBe(3);
    expect(idle.restedMs(second)).toBeUndefined();
    first.end();
    second.end();
    await turn();
    expect(ended).toEqual([3]);
  });

  it('are not closed while they are in use, and start again afterwards', () => {
    const socket = open();
    idle.add(socket, 1_000);
    clock.advance(500);
    idle.remove(socket);
    clock.advance(5_000);
    expect(socket.destroyed).toBe(false);
    expect(clock.timers).toBe(0);
    idle.add(socket, 1_000);
    clock.advance(999);
    expect(socket.destroyed).toBe(false);
    clock.advance(1);
    expect(socket.destroyed).toBe(true);
  });

  it('are closed when the pod sends something, while those in use are not', async () => {
    const socket = open();
    socket.write('an answer');
    await turn();
    expect(socket.destroyed).toBe(false);
    idle.add(socket, 1_000);
    socket.write('a word nobody asked for');
    await turn();
    expect(socket.destroyed).toBe(true);
  });
});

it('ignores a socket that was given away, and keeps no trace of it or of a closed one', async () => {
  const given = new PassThrough() as unknown as Socket;
  const before = given.eventNames().length;
  const forget = idle.watch(given);
  forget();
  expect(given.eventNames()).toHaveLength(before);
  idle.add(given, 1_000);
  const closed = open();
  idle.add(closed, 1_000);
  closed.destroy();
  await turn();
  expect(idle.idleMs(closed)).toBeUndefined();
  clock.advance(2_000);
  expect(given.destroyed).toBe(false);
  expect(clock.timers).toBe(0);
});

it('has no timer once it is stopped', () => {
  const [socket, other] = [open(), open()];
  idle.add(socket, 1_000);
  idle.stop();
  expect(clock.timers).toBe(0);
  idle.add(other, 10);
  expect(clock.timers).toBe(0);
});
