/**
 * One server of Connect, gRPC and gRPC-web over HTTP/2 in its own process, controlled over IPC by `connect-pods.ts`. The text of a message
 * says what to do:
 *
 *   <anything>        answers `<name> <anything>`          hang         no answer until `release`
 *   wait <ms>         answers after that                   error <code> an error of Connect, by the number of its code
 *   count <n>         (Count) n messages                   tick         (Count) a message every 20 ms until `release`
 *   bye               (Chat) the last answer
 *
 * Other paths are plain HTTP/2: `/echo` answers with the body and trailers, `/status/<n>` with a status, `/only/<name>` with 503 unless the pod has that
 * name, `/hold` not until `release`, `/reset/<code>` with RST_STREAM. Requests are counted and reported with every change.
 */
import { constants, createSecureServer, createServer } from 'node:http2';
import { setTimeout as sleep } from 'node:timers/promises';
import { Code, ConnectError } from '@connectrpc/connect';
import { connectNodeAdapter } from '@connectrpc/connect-node';
import { Orders } from './orders-service.mjs';
import { endServer, hostPods } from './pod-host.mjs';

hostPods(({ name, port = 0, tls, maxStreams, refuse = false, address = '127.0.0.1' }) => {
  const stats = { open: 0, running: 0, most: 0, opened: 0, requests: 0, paths: [] };
  let reporting = false;
  let isOver = false;
  function told() {
    if (reporting) return;
    reporting = true;
    setImmediate(() => {
      reporting = false;
      if (process.connected && !isOver) process.send?.({ stats });
    });
  }

  let release = () => {};
  let released = new Promise((resolve) => {
    release = resolve;
  });

  async function answer(text, signal) {
    const [what, argument] = text.split(' ');
    if (what === 'hang') {
      await Promise.race([released, new Promise((resolve) => signal.addEventListener('abort', resolve))]);
      // At its deadline the pod may be the first to notice: it has no answer then.
      if (signal.aborted) throw signal.reason;
    }
    if (what === 'wait') await sleep(Number(argument), undefined, { signal });
    if (what === 'error') throw new ConnectError('as asked', Number(argument));
    return { value: `${name} ${text}` };
  }

  const orders = {
    say: ({ value }, { signal }) => answer(value, signal),
    get: ({ value }, { signal }) => answer(value, signal),
    async *count({ value }, { signal }) {
      const [what, argument] = value.split(' ');
      let ended = false;
      void released.then(() => {
        ended = true;
      });
      if (what === 'error') throw new ConnectError('as asked', Number(argument));
      for (let number = 1; what === 'tick' ? !ended : number <= Number(argument); number++) {
        yield { value: `${name} ${number}` };
        if (what === 'tick') await sleep(20, undefined, { signal });
      }
    },
    async collect(messages) {
      const values = [];
      for await (const { value } of messages) values.push(value);
      return { value: `${name} ${values.join('+')}` };
    },
    async *chat(messages) {
      for await (const { value } of messages) {
        if (value.startsWith('error')) throw new ConnectError('as asked', Number(value.split(' ')[1] ?? Code.Unknown));
        yield { value: `${name} ${value}` };
        if (value === 'bye') return;
      }
    },
  };

  function plain(request, response) {
    const { stream, url } = request;
    const [, what, argument] = url.split('/');
    if (what === 'echo') {
      response.writeHead(200, { 'x-pod': name });
      response.addTrailers({ 'x-trailer': 'end' });
      request.pipe(response);
    } else if (what === 'hold') void released.then(() => response.end(name));
    else if (what === 'reset') stream.close(Number(argument));
    else if (what === 'only') response.writeHead(argument === name ? 200 : 503).end(name);
    else {
      response.writeHead(Number(argument ?? 200), { 'x-pod': name });
      response.end(name);
    }
  }

  const serve = connectNodeAdapter({
    routes: (router) => router.service(Orders, orders),
    fallback: plain,
    requestPathPrefix: '',
  });
  const handler = (request, response) => {
    if (refuse) request.stream.close(constants.NGHTTP2_REFUSED_STREAM);
    else serve(request, response);
  };
  const settings = maxStreams === undefined ? {} : { maxConcurrentStreams: maxStreams };
  const server =
    tls === undefined ? createServer({ settings }, handler) : createSecureServer({ settings, ...tls }, handler);
  const sessions = new Set();
  /** A session's own `socket` refuses to be reset. */
  const sockets = new Set();
  server.on('session', (session) => {
    sessions.add(session);
    stats.open = sessions.size;
    stats.opened++;
    told();
    session.on('error', () => {});
    // Node 22 may emit it twice.
    session.on('close', () => {
      sessions.delete(session);
      stats.open = sessions.size;
      told();
    });
    session.on('stream', (stream, headers) => {
      stats.requests++;
      stats.paths = [
        ...stats.paths.slice(-9),
        `${headers[':method']} ${headers[':scheme']}://${headers[':authority']}${headers[':path']}`,
      ];
      stats.running++;
      stats.most = Math.max(stats.most, stats.running);
      told();
      stream.on('error', () => {});
      stream.on('close', () => {
        stats.running--;
        told();
      });
    });
  });
  server.on('error', () => process.exit(1));

  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });

  const commands = {
    /** What hangs or ticks goes on to its end. */
    release() {
      const all = release;
      released = new Promise((resolve) => {
        release = resolve;
      });
      all();
    },
    /** Sends GOAWAY on every session: running streams finish, new sessions are accepted. */
    goaway() {
      for (const session of sessions) session.close();
    },
    /** As a server that shuts down: no new session, GOAWAY, and the end once the last stream has ended. */
    shutdown() {
      server.close(() => process.disconnect());
      for (const session of sessions) session.close();
    },
    /** Ends every connection as in a crash. */
    reset() {
      for (const socket of sockets) socket.resetAndDestroy();
    },
    /** Says that every client sends too many PINGs. */
    calm() {
      for (const session of sessions) session.goaway(11, 0, Buffer.from('too_many_pings'));
    },
  };
  server.listen(port, address, () => process.send?.({ port: server.address().port }));

  return {
    onMessage({ command, argument, id }) {
      commands[command](argument);
      process.send?.({ stats, id });
    },
    stop() {
      isOver = true;
      commands.release();
      endServer(server, sockets);
    },
  };
});
