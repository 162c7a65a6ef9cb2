// @ts-check
/** What an application writes: a client of Connect, and a session manager of evenkeel. `node examples/connect/demo.js` runs it on one machine. */
import { createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-node';
import { createSessionManager } from 'evenkeel/http2';
import { Orders } from './orders.js';

/** @param {import('evenkeel/http2').Http2Options} [options] none in a pod */
export function createOrders(options) {
  const baseUrl = 'http://orders.shop:8080';
  const sessionManager = createSessionManager(baseUrl, options);
  return {
    orders: createClient(Orders, createConnectTransport({ baseUrl, httpVersion: '2', sessionManager })),
    sessionManager,
  };
}
