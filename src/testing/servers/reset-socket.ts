import type { Socket } from 'node:net';

/**
 * Cuts a connection with RST. A connection that is already shutting down cannot be reset: Node then reports an error and never closes it
 * (`uv_tcp_close_reset` refuses with EINVAL), so such a connection is closed normally.
 */
export function resetSocket(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}
