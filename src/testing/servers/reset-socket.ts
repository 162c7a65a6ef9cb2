import type { Socket } from 'node:net';

/**
 * Cuts a connection with RST. One that is just being shut down takes no reset: Node then reports an error and never
 * closes it (`uv_tcp_close_reset` refuses with EINVAL), so it is closed in the ordinary way.
 */
export function resetSocket(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}
