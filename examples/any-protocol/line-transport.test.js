// @ts-check
/** The contract suite of every transport, for this one: `node --test examples/any-protocol`. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { describe, it } from 'node:test';
import { createEndpoint } from 'evenkeel';
import { transportContract } from 'evenkeel/testing';
import { lineTransport } from './line-transport.js';

transportContract(
  { describe, it },
  {
    name: 'lines',
    open: async () => {
      /** @type {Set<import('node:net').Socket>} */
      const sockets = new Set();
      /** Sockets with an unanswered line. @type {import('node:net').Socket[]} */
      const asked = [];
      const server = createServer({ allowHalfOpen: true }, (socket) => {
        let unanswered = 0;
        const endIfDone = () => socket.readableEnded && unanswered === 0 && socket.end();
        sockets.add(socket);
        socket.on('close', () => sockets.delete(socket)).on('error', () => {});
        socket.on('end', endIfDone);
        socket.on('data', () => {
          unanswered++;
          asked.push(socket);
          server.emit('asked');
        });
        socket.on('answer', () => {
          unanswered--;
          socket.write('answer\n', endIfDone);
        });
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
      const endpoint = createEndpoint({ address: '127.0.0.1', port });
      return {
        transport: lineTransport,
        endpoint,
        refusing: createEndpoint({ address: '127.0.0.1', port: 1 }),
        // This protocol has no handshake that could hang.
        hanging: endpoint,
        open: () => sockets.size,
        end(how) {
          for (const socket of sockets) how === 'cleanly' ? socket.end() : socket.resetAndDestroy();
        },
        async call(client) {
          const ended = client.ask('question').then(
            () => /** @type {const} */ ('finished'),
            () => /** @type {const} */ ('cut'),
          );
          if (asked.length === 0) await once(server, 'asked');
          const socket = asked.shift();
          // A half-open socket cannot tell a client that has gone from one that is waiting for its answer.
          void ended.then((how) => how === 'cut' && socket?.destroy());
          return { ended, finish: () => void socket?.emit('answer') };
        },
        async close() {
          server.close();
          await once(server, 'close');
        },
      };
    },
  },
);
