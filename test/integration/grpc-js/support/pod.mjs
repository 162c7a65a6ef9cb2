/**
 * A pod: a gRPC server in a process of its own, told what to do over IPC.
 *
 *   { set: { delayMs, hang, fail, pushbackMs, load, health } }   how it behaves from now on
 *   { goaway: true }                                             GOAWAY on every connection, and further ones are accepted
 *   {}                                                           every message is answered with its counts
 *   SIGTERM                                                      GOAWAY after `graceMs`, ends when its calls have
 *
 * Options: name, host, port, graceMs, cutMs, tls, maxStreams, maxAgeMs, maxAgeGraceMs, noHealth.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { hostPods } from '../../../support/pods/pod-host.mjs';

const require = createRequire(import.meta.url);
const peers = JSON.parse(process.env.EVENKEEL_PEERS ?? '{}');
const grpc = require(peers['@grpc/grpc-js'] ?? '@grpc/grpc-js');
const { loadSync } = require('@grpc/proto-loader');

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const { test, grpc: standard } = grpc.loadPackageDefinition(
  loadSync([here('echo.proto'), here('health.proto')], { keepCase: true, longs: Number, defaults: true }),
);

hostPods(
  ({
    name,
    host = '127.0.0.1',
    port = 0,
    graceMs = 0,
    cutMs,
    tls,
    maxStreams,
    maxAgeMs,
    maxAgeGraceMs,
    noHealth = false,
  }) => {
    const behaviour = { delayMs: 0, hang: false, fail: undefined, pushbackMs: undefined, load: undefined, health: 1 };
    const stats = { connections: 0, open: 0, calls: 0, unary: 0, streams: 0, running: 0, checks: 0 };

    const onSocket = ({ socket }) => {
      stats.connections++;
      stats.open++;
      socket.on('close', () => stats.open--);
    };
    subscribe('net.server.socket', onSocket);

    /** Runs `answer` the way the pod behaves just now. */
    function behave(call, kind, answer) {
      stats.calls++;
      stats[kind]++;
      stats.running++;
      let done = false;
      const end = () => {
        if (done) return;
        done = true;
        stats.running--;
      };
      call.on('cancelled', end);
      const trailers = new grpc.Metadata();
      if (behaviour.pushbackMs !== undefined) trailers.set('grpc-retry-pushback-ms', String(behaviour.pushbackMs));
      const { fail, hang, delayMs, load } = behaviour;
      if (load) trailers.set('endpoint-load-metrics-bin', Buffer.from(load, 'base64'));
      if (hang) return;
      const go = () => {
        if (fail === undefined) answer(end, trailers);
        else answer.fails({ code: fail, details: `${name} was told to fail`, metadata: trailers }, end);
      };
      if (delayMs > 0) setTimeout(go, delayMs);
      else go();
    }

    const unary = (kind, respond) => (call, callback) => {
      const answer = (end, trailers) =>
        respond(call, (error, value) => {
          end();
          callback(error, value, trailers);
        });
      answer.fails = (error, end) => {
        end();
        callback(error);
      };
      behave(call, kind, answer);
    };

    const streaming = (respond) => (call) => {
      const answer = (end, trailers) => respond(call, end, trailers);
      answer.fails = (error, end) => {
        end();
        call.emit('error', error);
      };
      behave(call, 'streams', answer);
    };

    const server = new grpc.Server({
      ...(maxStreams !== undefined && { 'grpc.max_concurrent_streams': maxStreams }),
      ...(maxAgeMs !== undefined && { 'grpc.max_connection_age_ms': maxAgeMs }),
      ...(maxAgeGraceMs !== undefined && { 'grpc.max_connection_age_grace_ms': maxAgeGraceMs }),
    });

    server.addService(test.v1.Echo.service, {
      say: unary('unary', (call, callback) => {
        const { text } = call.request;
        if (text === 'hang') return;
        const [, code] = /^fail (\d+)$/.exec(text) ?? [];
        const [, waitMs] = /^wait (\d+)$/.exec(text) ?? [];
        const received = JSON.stringify(call.metadata.getMap());
        const answer = () => callback(null, { text, pod: name, received, authority: call.getHost() });
        if (code !== undefined) callback({ code: Number(code), details: `${name} was told to fail` });
        else if (waitMs !== undefined) setTimeout(answer, Number(waitMs));
        else answer();
      }),
      count: streaming((call, end) => {
        let value = 0;
        const next = () => {
          if (call.cancelled) return;
          if (value >= call.request.numbers) {
            end();
            call.end();
            return;
          }
          call.write({ value: ++value, pod: name });
          setTimeout(next, call.request.pause_ms);
        };
        next();
      }),
      add: unary('streams', (call, callback) => {
        let value = 0;
        call.on('data', (number) => {
          value += number.value;
        });
        call.on('end', () => callback(null, { value, pod: name }));
      }),
      chat: streaming((call, end) => {
        call.on('data', ({ text }) => call.write({ text, pod: name }));
        call.on('end', () => {
          end();
          call.end();
        });
      }),
      watch: streaming(() => {}),
    });

    if (!noHealth) {
      server.addService(standard.health.v1.Health.service, {
        check: (call, callback) => {
          stats.checks++;
          if (behaviour.health === 'hang') return;
          if (call.request.service !== '' && call.request.service !== 'test.v1.Echo') {
            callback({ code: grpc.status.NOT_FOUND, details: 'unknown service' });
          } else callback(null, { status: behaviour.health });
        },
      });
    }

    const credentials = tls
      ? grpc.ServerCredentials.createSsl(null, [
          { private_key: Buffer.from(tls.key), cert_chain: Buffer.from(tls.cert) },
        ])
      : grpc.ServerCredentials.createInsecure();

    /** How long a connection that got GOAWAY may have calls, in ms. */
    const DRAIN_MS = 30_000;
    let boundPort = port;
    server.bindAsync(`${host}:${port}`, credentials, (error, bound) => {
      if (error) throw error;
      boundPort = bound;
      process.send({ port: bound });
    });

    const leave = () => {
      setTimeout(() => {
        server.tryShutdown(() => process.exit(0));
        if (cutMs !== undefined) setTimeout(() => process.exit(0), cutMs);
      }, graceMs);
    };
    process.on('SIGTERM', leave);

    return {
      onMessage(message) {
        if (message.set) Object.assign(behaviour, message.set);
        if (message.goaway) server.drain(`${host}:${boundPort}`, DRAIN_MS);
        process.send({ id: message.id, stats: { ...stats } });
      },
      stop() {
        unsubscribe('net.server.socket', onSocket);
        process.off('SIGTERM', leave);
        server.forceShutdown();
      },
    };
  },
);
