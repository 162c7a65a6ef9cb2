// @ts-check
/** The contract of every transport, for this one: `node --test examples/any-protocol`. */
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
      /** Sockets whose line has no answer yet. @type {import('node:net').Socket[]} */
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
        // There is no handshake after the connection that could hang.
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
          // Half-open as it is, it cannot tell a client that is gone from one that waits for its answer.
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
