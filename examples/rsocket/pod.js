// @ts-check
/** A pod: an RSocket server that answers with its name, and streams it. On SIGTERM it lets its streams end, then exits. */
import { createServer } from 'node:net';
import { RSocketServer } from 'rsocket-core';
import { TcpServerTransport } from 'rsocket-tcp-server';

const name = process.env.POD_NAME ?? 'pod';
const payload = { data: Buffer.from(name) };
const nothing = { cancel() {}, request() {}, onExtension() {} };
/** Functions that end the running streams. @type {Set<() => void>} */
const streams = new Set();

/** @type {Partial<import('rsocket-core').RSocket>} */
const responder = {
  requestResponse(_request, receiver) {
    receiver.onNext(payload, true);
    return nothing;
  },
  // One payload for each requested, until the pod is told to stop.
  requestStream(_request, initialRequestN, receiver) {
    const send = (/** @type {number} */ n) => {
      for (let sent = 0; sent < n; sent++) receiver.onNext(payload, false);
    };
    const end = () => receiver.onComplete();
    streams.add(end);
    send(initialRequestN);
    return { ...nothing, request: send, cancel: () => streams.delete(end) };
  },
};

const transport = new TcpServerTransport({
  listenOptions: { host: '127.0.0.1', port: Number(process.env.PORT ?? 7000) },
  socketCreator: (options) => {
    const server = createServer(options);
    server.once('listening', () => {
      process.send?.(/** @type {import('node:net').AddressInfo} */ (server.address()).port);
    });
    process.once('SIGTERM', () => {
      // This library's protocol has no message that tells clients to leave: they see it in the EndpointSlices. When they have closed
      // their connections, the process ends.
      server.close(() => process.exit());
      setTimeout(() => {
        for (const end of streams) end();
      }, 500);
    });
    return server;
  },
});
await new RSocketServer({ transport, acceptor: { accept: async () => responder } }).bind();
process.on('disconnect', () => process.exit());
