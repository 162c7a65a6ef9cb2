// @ts-check
/**
 * A pod of the Orders service.
 *
 *   node server.js            listens on 50051, or on PORT
 *
 * On SIGTERM it shuts down in order: it serves on for a moment, until every client has noticed that it leaves, then sends GOAWAY, lets
 * running calls finish, and exits.
 */
import { hostname } from 'node:os';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import { Orders } from './orders.js';

const pod = process.env.POD_NAME ?? hostname();
const states = ['paid', 'packed', 'shipped', 'delivered'];

const server = new Server();
server.addService(Orders.service, {
  get: (call, callback) => callback(null, { id: call.request.id, state: 'paid', pod }),
  follow: (call) => {
    const next = (/** @type {number} */ index) => {
      if (call.cancelled) return;
      call.write({ id: call.request.id, state: states[index], pod });
      if (index + 1 < states.length) setTimeout(next, 200, index + 1);
      else call.end();
    };
    next(0);
  },
});

server.bindAsync(`0.0.0.0:${process.env.PORT ?? 50051}`, ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  console.log(`${pod} listens on ${port}`);
  process.send?.({ port });
});

process.once('SIGTERM', () => {
  setTimeout(() => server.tryShutdown(() => process.exit(0)), Number(process.env.GRACE_MS ?? 1_000));
});
process.once('disconnect', () => process.exit(0));
