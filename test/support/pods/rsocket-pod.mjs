/**
 * One RSocket server in its own process, controlled over IPC by `rsocket-pods.ts`. The data of a request says what to do:
 *
 *   name         answers with its name              hang         no answer until `release`
 *   error        APPLICATION_ERROR                  reject       REJECTED: nothing was done
 *   nothing      completes without an answer        own          an error code of its own
 *   cancel       CANCELED: it gave up halfway
 *   count:<n>    a stream of n payloads, on request(n)
 *   tick         a stream that continues until `release`, one payload per request(1)
 *
 * A channel echoes what it receives. Requests are counted and reported with every change.
 */
import { createServer } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import core from 'rsocket-core';
import tcp from 'rsocket-tcp-server';
import { hostPods } from './pod-host.mjs';

const { ErrorCodes, Flags, FrameTypes, RSocketError, RSocketServer } = core;
// The library reads METADATA_PUSH frames up to a `length` that it does not declare.
globalThis.length = Infinity;
// The library warns about what a cut connection leaves behind.
console.warn = () => {};

hostPods(async ({ name, lease = false, port = 0, tls, refuse = false }) => {
  const stats = { open: 0, held: 0, requests: {}, data: [], pushed: [], setups: [] };
  const sockets = new Set();
  /** The frame writers of all connections. */
  const connections = new Set();
  const held = new Set();
  let isOver = false;
  const told = () => !isOver && process.send?.({ stats });

  function count(type, payload) {
    stats.requests[type] = (stats.requests[type] ?? 0) + 1;
    const data = String(payload.data ?? '');
    stats.data.push(data);
    told();
    return data.split(' ')[0];
  }

  function hold(release) {
    held.add(release);
    stats.held = held.size;
    told();
    return () => {
      held.delete(release);
      stats.held = held.size;
      told();
    };
  }

  const answer = { data: Buffer.from(name) };
  /** An error whose code the library sends: it checks the prototype, which its own constructor loses. */
  const coded = (code, message) => Object.setPrototypeOf(new RSocketError(code, message), RSocketError.prototype);
  const nothing = { cancel() {}, request() {}, onExtension() {} };

  function fail(what, receiver) {
    if (what === 'error') receiver.onError(new Error('no such order'));
    else if (what === 'own') receiver.onError(coded(0x301, 'out of stock'));
    else if (what === 'cancel') receiver.onError(coded(ErrorCodes.CANCELED, 'gave up'));
    else if (what === 'reject') receiver.onError(coded(ErrorCodes.REJECTED, 'busy'));
    else return false;
    return true;
  }

  const responder = {
    fireAndForget(payload, receiver) {
      count('fireAndForget', payload);
      receiver.onComplete();
      return nothing;
    },
    requestResponse(payload, receiver) {
      const what = count('requestResponse', payload);
      if (fail(what, receiver)) return nothing;
      if (what === 'hang') {
        const released = hold(() => receiver.onNext(answer, true));
        return { ...nothing, cancel: released };
      }
      if (what === 'nothing') receiver.onComplete();
      else receiver.onNext(answer, true);
      return nothing;
    },
    requestStream(payload, requestN, receiver) {
      const what = count('requestStream', payload);
      if (fail(what, receiver)) return nothing;
      const last = what === 'tick' ? Infinity : Number(what.split(':')[1]);
      let sent = 0;
      const send = (n) => {
        for (let left = n; left > 0 && sent < last; left--) {
          sent++;
          receiver.onNext({ data: Buffer.from(`${name} ${sent}`) }, sent === last);
        }
      };
      const released = what === 'tick' ? hold(() => receiver.onComplete()) : () => {};
      send(requestN);
      return { ...nothing, request: send, cancel: released };
    },
    requestChannel(payload, requestN, isCompleted, receiver) {
      count('requestChannel', payload);
      const released = hold(() => receiver.onComplete());
      const echo = ({ data }, isLast) => {
        if (isLast) released();
        receiver.onNext({ data: Buffer.from(`${name} ${data}`) }, isLast);
      };
      setImmediate(() => {
        echo(payload, isCompleted);
        if (!isCompleted) receiver.request(requestN);
      });
      return {
        ...nothing,
        onNext: echo,
        onError: released,
        onComplete: () => {
          released();
          receiver.onComplete();
        },
        cancel: released,
      };
    },
  };

  const transport = new tcp.TcpServerTransport({
    listenOptions: { host: '127.0.0.1', port },
    serverOptions: tls ?? {},
    socketCreator: (options) => {
      const server = tls ? createTlsServer(options) : createServer(options);
      // The library only opens plain listeners.
      if (tls) {
        const on = server.addListener.bind(server);
        server.addListener = (event, listener) => on(event === 'connection' ? 'secureConnection' : event, listener);
      }
      server.on('connection', (socket) => {
        sockets.add(socket);
        stats.open = sockets.size;
        told();
        socket.on('error', () => {});
        socket.once('close', () => {
          sockets.delete(socket);
          stats.open = sockets.size;
          told();
        });
      });
      server.once('listening', () => process.send?.({ port: server.address().port }));
      return server;
    },
  });

  /** The library neither sends leases nor reads METADATA_PUSH: both are handled on its frames here. */
  const watched = {
    bind: (accept, makeStreams) =>
      transport.bind(accept, (frame, outbound) => {
        const streams = makeStreams(frame, outbound);
        connections.add(outbound);
        outbound.onClose(() => connections.delete(outbound));
        const { handle } = streams;
        streams.handle = (next) => {
          if (next.type === FrameTypes.METADATA_PUSH) {
            stats.pushed.push(String(next.metadata));
            told();
          }
          handle.call(streams, next);
        };
        return streams;
      }),
  };

  const send = (frame) => {
    for (const connection of connections) connection.send({ streamId: 0, flags: Flags.NONE, ...frame });
  };
  const commands = {
    release: () => {
      for (const release of [...held]) release();
      held.clear();
      stats.held = 0;
    },
    /** Grants this many requests on each connection. */
    grant: ({ requestCount, ttl = 60_000 }) => send({ type: FrameTypes.LEASE, requestCount, ttl, metadata: undefined }),
    /** No new request on any connection; running ones continue. */
    leave: () => send({ type: FrameTypes.ERROR, code: ErrorCodes.CONNECTION_CLOSE, message: 'leaving' }),
    end: () => {
      for (const socket of sockets) socket.end();
    },
    reset: () => {
      for (const socket of sockets) socket.resetAndDestroy();
    },
  };
  const bound = await new RSocketServer({
    transport: watched,
    acceptor: {
      accept: async (setup) => {
        stats.setups.push(String(setup.data ?? ''));
        told();
        if (refuse) throw new Error('not welcome');
        return responder;
      },
    },
    ...(lease && { lease: {} }),
  }).bind();

  return {
    onMessage({ command, argument, id }) {
      commands[command]?.(argument);
      process.send({ id, stats });
    },
    stop() {
      isOver = true;
      bound.close();
      commands.reset();
    },
  };
});
