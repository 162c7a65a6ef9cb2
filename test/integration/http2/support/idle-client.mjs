/**
 * Makes a call to the pod at the given port through the built package, and does nothing more. It has to end by itself: without closing
 * anything (`idle`), after closing its client (`closed`), or after closing it while a stream runs that the pod does not end (`calls`).
 */
import { createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-node';
import { createSessionManager } from 'evenkeel/http2';
import { Orders } from '../../../support/pods/orders-service.mjs';

const [how, port] = process.argv.slice(2);
const baseUrl = `http://127.0.0.1:${port}`;
const sessionManager = createSessionManager(baseUrl, { pool: { drainTimeoutMs: 100 } });
const orders = createClient(Orders, createConnectTransport({ baseUrl, httpVersion: '2', sessionManager }));
console.log((await orders.say({ value: 'hello' })).value);
if (how === 'calls') orders.say({ value: 'hang' }).catch(() => {});
if (how !== 'idle') await sessionManager.close();
console.log(how);
