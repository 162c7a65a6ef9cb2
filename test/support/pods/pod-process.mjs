/**
 * One pod: an HTTP server in its own process, controlled over IPC by `pods.ts`. The path of a request says what to do:
 *
 *   /echo            the body comes back, with its trailers        /cookies       two Set-Cookie headers
 *   /bytes/<n>       n bytes                                       /hints         103, then 200
 *   /status/<code>   that status                                   /redirect?to=  302
 *   /hang            no answer, ever                               /hang-body     a head, a piece, then nothing
 *   /drip/<n>/<ms>   n lines, one every ms, with trailers        /gzip          a compressed body
 *   /reset           the connection is reset before any answer     /reset-body    … in the middle of the body
 *   /wait/<ms>       200 and no body, after that
 *   anything else    200 and JSON about the request
 *
 * The pod counts `x-id` headers, so that a test sees how often each request arrived. With `journal` it also writes each to that file
 * before it answers, so that it is known even if the pod is killed or leaves.
 *
 * With `graceMs`, SIGTERM ends it like a well-behaved pod: it serves on for that long, then accepts no new connection, sends
 * `Connection: close` or GOAWAY, and exits when nothing is running.
 */
import { createHash } from 'node:crypto';
import { closeSync, openSync, writeSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createHttp2Server, createSecureServer } from 'node:http2';
import { createServer as createTlsServer } from 'node:https';
import { Server } from 'node:net';
import { gzipSync } from 'node:zlib';
import { endServer, hostPods } from './pod-host.mjs';

/** Paths that ignore the body of a request. */
const bodyless = new Set([
  'hang',
  'drip',
  'gzip',
  'hang-body',
  'reset-body',
  'bytes',
  'cookies',
  'hints',
  'redirect',
  'status',
  'wait',
]);

const usual = {
  delayMs: 0,
  status: 200,
  headers: {},
  connection: 'keep-alive',
  hang: false,
  reset: false,
  hangUp: false,
  resetReused: false,
  idleMs: 0,
};
const none = () => ({
  requests: 0,
  connections: 0,
  held: 0,
  authorized: 0,
  aborted: 0,
  ids: {},
  hosts: {},
  servernames: {},
});

hostPods(function servePod({
  name,
  tls,
  http2 = false,
  host: listenAt = '127.0.0.1',
  port = 0,
  backlog = 511,
  journal,
  graceMs,
  maxAgeMs,
}) {
  const journalFile = journal === undefined ? undefined : openSync(journal, 'a');

  let behaviour = { ...usual };
  const stats = none();
  const sockets = new Set();
  /** Timers of idle connections. */
  const idle = new WeakMap();
  /** Connections that had a request. */
  const used = new WeakSet();

  async function handle(request, response) {
    stats.requests++;
    const host = request.headers.host ?? request.headers[':authority'];
    stats.hosts[host] = (stats.hosts[host] ?? 0) + 1;
    const id = request.headers['x-id'];
    if (id !== undefined) {
      stats.ids[id] = (stats.ids[id] ?? 0) + 1;
      // The machine's clock, so that a test can compare it with its own times.
      if (journalFile !== undefined) writeSync(journalFile, `${id} ${name} ${process.hrtime.bigint() / 1000n}\n`);
    }
    if (request.headers.authorization !== undefined) stats.authorized++;
    const { socket } = request;
    clearTimeout(idle.get(socket));
    response.on('close', () => {
      if (!response.writableFinished) stats.aborted++;
      // Our own timer, because Node adds a second to its own.
      if (behaviour.idleMs > 0) idle.set(socket, setTimeout(() => socket.destroy(), behaviour.idleMs).unref());
    });
    if (behaviour.hangUp) response.on('finish', () => socket.end());
    const { connection } = behaviour;
    // A Connection header of our own keeps Node from adding `Keep-Alive: timeout=`, so the client gets no hint.
    if (request.httpVersionMajor === 1 && connection !== 'default') response.setHeader('connection', connection);
    response.setHeader('x-pod', name);
    for (const [header, value] of Object.entries(behaviour.headers)) response.setHeader(header, value);
    if (behaviour.hang) {
      request.resume();
      return;
    }
    if (behaviour.reset || (behaviour.resetReused && used.has(socket))) {
      socket.resetAndDestroy();
      return;
    }
    used.add(socket);
    if (behaviour.delayMs > 0) await new Promise((resolve) => setTimeout(resolve, behaviour.delayMs));
    const url = new URL(request.url, 'http://pod');
    const [, what, argument] = url.pathname.split('/');
    // A server that leaves a body unread does not notice when its client disconnects.
    if (bodyless.has(what)) request.resume();
    switch (what) {
      case 'hang':
        return;
      case 'hang-body':
        response.statusCode = behaviour.status;
        response.write('begun');
        return;
      case 'reset':
        request.socket.resetAndDestroy();
        return;
      case 'reset-body':
        response.writeHead(200, { 'content-length': 1000 });
        response.write('begun', () => setImmediate(() => request.socket.resetAndDestroy()));
        return;
      case 'drip': {
        const [, , lines, pauseMs] = url.pathname.split('/').map(Number);
        response.writeHead(200, { trailer: 'x-lines' });
        for (let line = 1; line <= lines && !response.destroyed; line++) {
          response.write(`${line}\n`);
          await new Promise((resolve) => setTimeout(resolve, pauseMs));
        }
        response.addTrailers({ 'x-lines': String(lines) });
        response.end();
        return;
      }
      case 'bytes':
        response.statusCode = behaviour.status;
        response.setHeader('content-length', Number(argument));
        // Ended only when the kernel has all of it: as soon as a response has ended, Node's `close` takes its connection for idle
        // and destroys it, including what a slow reader has yet to receive.
        response.write(Buffer.alloc(Number(argument), 'x'), () => response.end());
        return;
      case 'cookies':
        response.setHeader('set-cookie', ['a=1', 'b=2']);
        response.end();
        return;
      case 'gzip':
        response.setHeader('content-encoding', 'gzip');
        response.end(gzipSync('unpacked'));
        return;
      case 'hints':
        response.writeEarlyHints({ link: '</style.css>; rel=preload' });
        response.end('after the hints');
        return;
      case 'redirect':
        response.writeHead(302, { location: url.searchParams.get('to') }).end();
        return;
      case 'wait':
        await new Promise((resolve) => setTimeout(resolve, Number(argument)));
        response.end();
        return;
      case 'status':
        request.resume();
        response.writeHead(Number(argument), { 'content-type': 'text/plain' }).end(`status ${argument}`);
        return;
      case 'echo': {
        response.writeHead(behaviour.status, { trailer: 'x-length' });
        let length = 0;
        for await (const chunk of request) {
          length += chunk.length;
          if (!response.write(chunk)) await new Promise((resolve) => response.once('drain', resolve));
        }
        response.addTrailers({ 'x-length': String(length) });
        response.end();
        return;
      }
      default: {
        let length = 0;
        for await (const chunk of request) length += chunk.length;
        response.writeHead(behaviour.status, { 'content-type': 'application/json' });
        const { method, headers } = request;
        response.end(JSON.stringify({ pod: name, method, url: request.url, host, headers, length }));
      }
    }
  }

  const onRequest = (request, response) => {
    handle(request, response).catch(() => response.destroy());
  };
  /** HTTP/2 in the clear. `only`: HTTP/1.1 is not understood, as by Node's own server. */
  function clearServer() {
    const clear = createHttp2Server(onRequest);
    if (http2 === 'only') return clear;
    const both = createServer(onRequest);
    clear.on('session', (session) => both.emit('session', session));
    const [serveHttp1] = both.listeners('connection');
    both.off('connection', serveHttp1);
    return both.on('connection', (socket) => {
      socket.once('readable', () => {
        const first = socket.read();
        if (first === null) return;
        socket.unshift(first);
        if (first.toString('latin1', 0, 3) === 'PRI') clear.emit('connection', socket);
        else serveHttp1.call(both, socket);
      });
    });
  }
  const secureServer = () =>
    http2 ? createSecureServer({ ...tls, allowHTTP1: true }, onRequest) : createTlsServer(tls, onRequest);
  const server = tls ? secureServer() : http2 ? clearServer() : createServer(onRequest);
  server.keepAliveTimeout = 60_000;
  server.on('connection', (socket) => {
    stats.connections++;
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  });
  server.on('secureConnection', (socket) => {
    stats.servernames[socket.servername || ''] = (stats.servernames[socket.servername || ''] ?? 0) + 1;
  });
  const sessions = new Set();
  server.on('session', (session) => {
    sessions.add(session);
    const age = maxAgeMs === undefined ? undefined : setTimeout(() => session.close(), maxAgeMs);
    session.on('close', () => {
      clearTimeout(age);
      sessions.delete(session);
    });
  });
  server.on('upgrade', (request, socket, head) => {
    stats.requests++;
    socket.on('error', () => {});
    const lines = ['HTTP/1.1 101 Switching Protocols', 'connection: upgrade', `upgrade: ${request.headers.upgrade}`];
    const webSocketKey = request.headers['sec-websocket-key'];
    if (webSocketKey !== undefined) {
      // A minimal WebSocket server: a text frame with the pod's name; it closes on whatever comes back (RFC 6455).
      const accept = createHash('sha1').update(`${webSocketKey}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
      socket.write(`${lines.join('\r\n')}\r\nsec-websocket-accept: ${accept}\r\n\r\n`);
      socket.write(Buffer.concat([Buffer.of(0x81, name.length), Buffer.from(name)]));
      socket.once('data', () => socket.end(Buffer.of(0x88, 0)));
      socket.once('end', () => socket.end());
      return;
    }
    socket.write(`${lines.join('\r\n')}\r\n\r\n`);
    if (head.length > 0) socket.write(head);
    socket.pipe(socket);
  });
  server.on('connect', (_request, socket) => {
    stats.requests++;
    socket.on('error', () => {});
    socket.write('HTTP/1.1 200 OK\r\n\r\n');
    socket.pipe(socket);
  });

  const commands = {
    // A late reset can destroy a socket without a 'close' event.
    stats: () => ({ ...stats, open: [...sockets].filter(({ destroyed }) => !destroyed).length }),
    behave(change) {
      behaviour = { ...behaviour, ...change };
    },
    /** Resets every connection (RST), including idle ones. */
    reset() {
      for (const socket of sockets) socket.resetAndDestroy();
    },
    /** Ends every connection (FIN), including idle ones. */
    end() {
      for (const socket of sockets) socket.end();
    },
    /** Accepts no new connection; open ones continue. */
    stopListening() {
      // Not node:http's close, which also ends idle connections.
      Server.prototype.close.call(server);
    },
    /** TLS: from now on no handshake starts, as on an overloaded node; open connections continue. */
    hold() {
      server.removeAllListeners('connection');
      server.on('connection', (socket) => {
        stats.held++;
        sockets.add(socket);
        socket.on('error', () => {});
        // Read, so that it is noticed when the client gives up: the server waits for the connection.
        socket.resume().on('end', () => socket.destroy());
      });
    },
    /** HTTP/2: accepts no more connections, and sends GOAWAY: only the first request of each connection was processed. */
    refuse() {
      commands.stopListening();
      for (const session of sessions) session.goaway(0, 1);
    },
    /** HTTP/2: sends GOAWAY; running streams finish. */
    goaway() {
      for (const session of sessions) session.close();
    },
  };

  /** Serves on for a while, ends idle connections, and waits for the others. */
  const leave = () =>
    setTimeout(() => {
      behaviour.connection = 'close';
      server.close(() => process.exit());
      commands.goaway();
    }, graceMs);
  if (graceMs !== undefined) process.on('SIGTERM', leave);
  const sayTaken = ({ code }) => process.send({ taken: code });
  server.once('error', sayTaken);
  server.listen({ port, backlog, host: listenAt }, () => {
    server.off('error', sayTaken);
    process.send({ listening: server.address().port });
  });

  return {
    onMessage({ id, command, argument }) {
      const result = commands[command](argument);
      process.send({ id, result });
    },
    stop() {
      endServer(server, sockets);
      process.off('SIGTERM', leave);
      if (journalFile !== undefined) closeSync(journalFile);
    },
  };
});
