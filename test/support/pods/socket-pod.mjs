/**
 * One server of plain or TLS sockets in its own process, controlled over IPC by `socket-pods.ts`. It greets with its name and a line
 * break, and echoes what it receives. With `silent` it does not greet; with `brief` it ends each connection after the greeting.
 */
import { createServer } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { endServer, hostPods } from './pod-host.mjs';

hostPods(({ name, port = 0, tls, silent = false, brief = false }) => {
  const stats = { open: 0, accepted: 0, ended: 0, received: '' };
  const sockets = new Set();
  let isOver = false;
  const told = () => !isOver && process.send?.({ stats });

  function serve(socket) {
    stats.open++;
    stats.accepted++;
    sockets.add(socket);
    if (brief) socket.end(`${name}\n`);
    else if (!silent) socket.write(`${name}\n`);
    socket.on('data', (data) => {
      stats.received = (stats.received + data).slice(-1000);
      socket.write(data);
      told();
    });
    // The other side has finished.
    socket.on('end', () => void stats.ended++);
    socket.on('error', () => {});
    socket.on('close', () => {
      stats.open--;
      sockets.delete(socket);
      told();
    });
    told();
  }

  const server = tls ? createTlsServer(tls, serve) : createServer(serve);
  server.listen(port, '127.0.0.1', () => process.send({ port: server.address().port }));

  const commands = {
    end: () => sockets.forEach((socket) => void socket.end()),
    reset: () =>
      sockets.forEach((socket) => void (socket.resetAndDestroy ? socket.resetAndDestroy() : socket.destroy())),
    /** Refuses connections from now on; open ones continue. */
    refuse: () => void server.close(),
  };

  return {
    onMessage({ command, id }) {
      commands[command]();
      process.send({ stats, id });
    },
    stop() {
      isOver = true;
      endServer(server, sockets);
    },
  };
});
