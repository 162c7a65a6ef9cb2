import type { Socket } from 'node:net';
import { afterPendingIo } from '../../index.js';

/**
 * Has the socket of an HTTP/2 session tell of the other side's end only once all that came before it has been passed on.
 * undici destroys a session the moment it hears of the end (`onHttp2SocketEnd`). The last frames may have been read in the
 * same turn, and what they carry reaches the streams some ticks later: answers the pod gave in full would be lost when it
 * hangs up behind them. Seen in undici 8.12 on Node 22 and 24, whenever the client was busy as they came.
 */
export function tellEndLate(socket: Socket): void {
  const emit = socket.emit.bind(socket) as (event: string, ...values: unknown[]) => boolean;
  socket.emit = (event: string, ...values: unknown[]): boolean => {
    if (event !== 'end') return emit(event, ...values);
    afterPendingIo(() => emit(event));
    return true;
  };
}
