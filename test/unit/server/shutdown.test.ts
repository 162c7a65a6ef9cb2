import { EventEmitter } from 'node:events';
import { gracefulShutdown, type ShutdownOptions } from 'evenkeel/server';
import { FakeClock } from 'evenkeel/testing';
import { describe, expect, it } from 'vitest';
import { resolvePlacingOptions } from '../../../src/placement/placing-options.js';
import { shutdownTable } from '../../../src/server/shutdown/shutdown.js';

/** A WebSocket that closes when it is told to. */
class FakeSocket extends EventEmitter {
  readonly #server: FakeWebSockets;
  constructor(server: FakeWebSockets) {
    super();
    this.#server = server;
  }
  close(code: number): void {
    this.#server.closed.push(`${this.#server.clock.now()}: ${code}`);
    this.#server.clients.delete(this);
    this.emit('close');
  }
  terminate(): void {
    this.close(1006);
  }
}

class FakeWebSockets extends EventEmitter {
  readonly clients = new Set<FakeSocket>();
  readonly closed: string[] = [];
  readonly clock: FakeClock;
  constructor(clock: FakeClock, count: number) {
    super();
    this.clock = clock;
    for (let opened = 0; opened < count; opened++) this.open();
  }
  open(): void {
    const socket = new FakeSocket(this);
    this.clients.add(socket);
    this.emit('connection', socket);
  }
}

function leave(options: ShutdownOptions, count = 4) {
  const clock = new FakeClock(0);
  const webSockets = new FakeWebSockets(clock, count);
  const shutdown = gracefulShutdown({ webSockets, clock, signals: [], exit: false, ...options });
  const over = shutdown.begin();
  return { clock, webSockets, shutdown, over };
}

describe('WebSockets of a pod that shuts down', () => {
  it('stay until clients that watch endpoints have left, with the defaults of both, and end before the pod is killed', () => {
    const { delayMs, idleMs, leaveMs, drainTimeoutMs } = shutdownTable.defaults;
    const { leaveSpreadMs } = resolvePlacingOptions({});
    expect(leaveMs).toBeGreaterThanOrEqual(leaveSpreadMs);
    expect(delayMs + leaveMs + idleMs).toBeLessThan(drainTimeoutMs);
    // The default of terminationGracePeriodSeconds.
    expect(drainTimeoutMs).toBeLessThan(30_000);
  });

  it('are closed one by one over idleMs, after delayMs and leaveMs', async () => {
    const { clock, webSockets, over } = leave({});
    clock.advance(11_999);
    expect(webSockets.closed).toEqual([]);
    // Its caller has not heard yet; it gets a turn like the others.
    webSockets.open();
    clock.advance(1);
    clock.advance(4_999);
    expect(webSockets.closed).toEqual(['12000: 1012', '13000: 1012', '14000: 1012', '15000: 1012', '16000: 1012']);
    await over;
  });

  it('are closed at once if they open later', () => {
    const { clock, webSockets } = leave({}, 1);
    clock.advance(13_000);
    webSockets.open();
    expect(webSockets.closed).toEqual(['12000: 1012', '13000: 1012']);
  });

  it('are closed earlier if drainTimeoutMs leaves less time', async () => {
    const { clock, webSockets, over } = leave({ drainTimeoutMs: 10_000 });
    clock.advance(10_000);
    expect(webSockets.closed).toEqual(['4000: 1012', '5250: 1012', '6500: 1012', '7750: 1012']);
    await over;
  });

  it('are closed at once after a second signal', async () => {
    const { clock, webSockets, shutdown, over } = leave({});
    clock.advance(8_000);
    void shutdown.begin();
    expect(webSockets.closed).toEqual(Array(4).fill('8000: 1012'));
    await over;
  });

  it('do not delay the end if their clients have left', async () => {
    const { clock, webSockets, over } = leave({});
    clock.advance(3_000);
    for (const socket of [...webSockets.clients]) socket.close(1000);
    clock.advance(4_000);
    await over;
    expect(clock.now()).toBe(7_000);
    expect(clock.timers).toBe(0);
  });
});
