// @ts-check
/** What an application writes: a class like that of `ws`, and a client that reconnects. `node examples/websocket/demo.js` runs it on one machine. */
import { createWebSockets } from 'evenkeel/ws';

/** @param {import('evenkeel/ws').WebSocketsOptions} [options] none in a pod */
export function createChat(options) {
  // These clients reconnect by themselves, so the sockets of a pod that leaves are closed one by one.
  return createWebSockets('ws://chat.shop:8080', { closeLeaving: true, ...options });
}

/** Joins a room, and again when the socket is closed. @param {ReturnType<typeof createChat>} chat @param {(code: number) => boolean} closed whether to join again */
export function join(chat, closed) {
  const socket = new chat.WebSocket('ws://chat.shop:8080/rooms/7');
  socket.on('error', () => {});
  socket.on('close', (code) => {
    if (closed(code)) join(chat, closed);
  });
}
