// @ts-check
/** The ordinary client: stock ws through the Service, reopened when it is closed. */
import { WebSocket } from 'ws';
import { keepOpen } from './websocket.js';

/** @type {import('./client.js').CreateClient} */
export const createClient = ({ servicePorts }, closed) =>
  keepOpen(
    () =>
      new WebSocket(`ws://127.0.0.1:${servicePorts.websocket}/orders`, {
        headers: { 'x-lane': 'websocket/ordinary' },
      }),
    closed,
  );
