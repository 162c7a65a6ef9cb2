/**
 * One WebSocket server in its own process, controlled over IPC by `ws-pods.ts`. It greets with its name and the client's request, as
 * JSON, and echoes what it receives. `kind`: `ws` (the default), `socket.io`, or `graphql`, which answers the subscription `{ names }`
 * with its name ten times a second. With `refuses` it opens no WebSocket: it answers 503 (`status`), or closes the connection
 * (`hang-up`).
 */
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { WebSocketServer } from 'ws';
import { endServer, hostPods } from './pod-host.mjs';

hostPods(async ({ name, kind = 'ws', port = 0, tls, refuses }) => {
  /** `closes`: by code. `arrivals`: times of new connections, in ms since the epoch. */
  const stats = { open: 0, accepted: 0, refused: 0, closes: {}, arrivals: [], sockets: 0 };
  let isTold = true;
  let isOver = false;
  /** At most once per turn: a thousand connections may come at once. */
  function told() {
    if (!isTold) return;
    isTold = false;
    setTimeout(() => {
      isTold = true;
      if (process.connected && !isOver) process.send({ stats });
    }, 10);
  }

  const server = tls ? createTlsServer(tls) : createServer((_request, response) => response.end(name));
  const sockets = new Set();
  server.on(tls ? 'secureConnection' : 'connection', (socket) => {
    stats.sockets++;
    sockets.add(socket);
    socket.on('close', () => {
      stats.sockets--;
      sockets.delete(socket);
      told();
    });
  });

  function opened() {
    stats.open++;
    stats.accepted++;
    stats.arrivals.push(Date.now());
    told();
  }
  function closed(code) {
    stats.open--;
    stats.closes[code] = (stats.closes[code] ?? 0) + 1;
    told();
  }

  let refusing = refuses;
  function refuse(socket) {
    stats.refused++;
    told();
    socket.on('error', () => {});
    socket.end(refusing === 'status' ? 'HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n' : undefined);
  }

  let io;
  if (kind === 'socket.io') {
    const { Server } = await import('socket.io');
    io = new Server(server, { transports: ['polling', 'websocket'] });
    io.on('connection', (socket) => {
      opened();
      socket.emit('name', name);
      socket.on('echo', (text, answer) => answer(text));
      socket.on('disconnect', (reason) => closed(reason));
    });
  } else {
    const perMessageDeflate = { threshold: 0 };
    const wss = new WebSocketServer({
      noServer: true,
      perMessageDeflate,
      handleProtocols: (asked) => [...asked][0] ?? false,
    });
    server.on('upgrade', (request, socket, head) => {
      if (refusing !== undefined) refuse(socket);
      else wss.handleUpgrade(request, socket, head, (webSocket) => wss.emit('connection', webSocket, request));
    });
    wss.on('connection', (socket, { headers, url }) => {
      opened();
      socket.on('error', () => {});
      socket.on('close', closed);
      if (kind === 'ws') {
        const { protocol, extensions } = socket;
        const { host, 'x-tenant': tenant } = headers;
        socket.send(JSON.stringify({ name, host, tenant, url, protocol, extensions }));
        socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }));
      }
    });
    if (kind === 'graphql') {
      const { useServer } = await import('graphql-ws/use/ws');
      const { GraphQLObjectType, GraphQLSchema, GraphQLString } = await import('graphql');
      async function* names() {
        for (;;) {
          yield { names: name };
          await new Promise((resolve) => setTimeout(resolve, 100));
        }
      }
      const fields = { names: { type: GraphQLString, subscribe: names } };
      const subscription = new GraphQLObjectType({ name: 'Subscription', fields });
      const query = new GraphQLObjectType({ name: 'Query', fields: { name: { type: GraphQLString } } });
      useServer({ schema: new GraphQLSchema({ query, subscription }) }, wss);
    }
  }

  server.listen(port, '127.0.0.1', () => process.send({ port: server.address().port }));

  const commands = {
    /** Ends its sockets without a close frame, like most servers that exit. */
    cut: () => sockets.forEach((socket) => void socket.destroy()),
    /** Stops refusing. */
    welcome: () => {
      refusing = undefined;
    },
    nothing: () => {},
  };
  return {
    onMessage({ command, id }) {
      commands[command]();
      process.send({ stats, id });
    },
    stop() {
      isOver = true;
      io?.engine.close();
      endServer(server, sockets);
    },
  };
});
