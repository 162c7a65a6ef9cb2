import type { Socket } from 'node:net';

/**
 * Cuts a connection with RST. A connection already shutting down cannot be reset: Node then reports an error and never closes it
 * (`uv_tcp_close_reset` refuses with EINVAL), so it is closed normally.
 */
export function resetSocket(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}
