import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type LoadReport, type ObserverEvents, staticEndpoints } from 'evenkeel';
import { type Backend, createBackend } from 'evenkeel/server';
import { createDispatcher } from 'evenkeel/undici';
import express from 'express';
import fastify from 'fastify';
import Koa from 'koa';
import { describe, expect, it } from 'vitest';
import { calledAfterEach } from '../../support/opened.js';
import { until } from '../../support/until.js';

const ASK = 'endpoint-load-metrics-format';
const REPORT = 'endpoint-load-metrics';

const closing = calledAfterEach();

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/**
 * The same small application in each framework: `/` answers JSON, `/stream` in two parts, `/throw` throws, `/missing` is not there.
 * What `pod` is has to be said first.
 */
const frameworks: Record<string, (pod: Backend) => Promise<number>> = {
  'node:http': (pod) => {
    const listener: RequestListener = (request, response) => {
      if (request.url === '/missing') response.writeHead(404).end();
      else if (request.url === '/throw') response.writeHead(500).end();
      else if (request.url === '/stream') {
        response.write('{"hello":');
        setImmediate(() => response.end('"world"}'));
      } else response.setHeader('content-type', 'application/json').end('{"hello":"world"}');
    };
    return listen(createServer(pod.http(listener)));
  },
  Express: (pod) => {
    const app = express();
    app.use(pod.express);
    app.get('/', (_request, response) => void response.json({ hello: 'world' }));
    app.get('/stream', (_request, response) => {
      response.write('{"hello":');
      setImmediate(() => response.end('"world"}'));
    });
    app.get('/throw', () => {
      throw new Error('of the application');
    });
    app.use(((_error, _request, response, _next) => void response.status(500).end()) as express.ErrorRequestHandler);
    return listen(createServer(app));
  },
  Fastify: async (pod) => {
    const app = fastify({ forceCloseConnections: true });
    await app.register(pod.fastify);
    app.get('/', async () => ({ hello: 'world' }));
    app.get('/stream', (_request, reply) => {
      reply.hijack();
      reply.raw.write('{"hello":');
      setImmediate(() => reply.raw.end('"world"}'));
    });
    app.register((part, _options, done) => {
      part.get('/throw', async () => {
        throw new Error('of the application');
      });
      done();
    });
    closing.push(() => app.close());
    await app.listen({ port: 0, host: '127.0.0.1' });
    return (app.server.address() as AddressInfo).port;
  },
  Koa: (pod) => {
    const app = new Koa();
    app.silent = true;
    app.use(pod.koa);
    app.use(async (context) => {
      if (context.path === '/throw') throw new Error('of the application');
      if (context.path === '/missing') return;
      if (context.path === '/stream') {
        context.respond = false;
        context.res.statusCode = 200;
        context.res.write('{"hello":');
        setImmediate(() => context.res.end('"world"}'));
        return;
      }
      context.body = { hello: 'world' };
    });
    return listen(createServer(app.callback()));
  },
};

describe.each(Object.entries(frameworks))('%s', (_name, start) => {
  it('reports to a stock client that asks, in every kind of response', async () => {
    const pod = createBackend();
    closing.push(() => pod.close());
    const port = await start(pod);
    for (const [path, status] of [
      ['/', 200],
      ['/stream', 200],
      ['/throw', 500],
      ['/missing', 404],
    ] as const) {
      const asked = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { [ASK]: 'TEXT' } });
      expect(asked.status).toBe(status);
      expect(asked.headers.get(REPORT), path).toContain('evenkeel_in_flight=1');
      const body = await asked.text();
      const plain = await fetch(`http://127.0.0.1:${port}${path}`);
      expect(plain.headers.get(REPORT)).toBeNull();
      expect(await plain.text()).toBe(body);
      await until('none runs', () => pod.inFlight === 0);
    }
  });

  it('reports to our clients without further set-up', async () => {
    const pod = createBackend({ reports: { sampleMs: 10, utilization: () => 0.5, metrics: () => ({ jobs: 7 }) } });
    closing.push(() => pod.close());
    const port = await start(pod);
    const reports: (LoadReport | undefined)[] = [];
    const dispatcher = createDispatcher('http://orders.shop:8080', {
      resolver: staticEndpoints([{ address: '127.0.0.1', port }]),
      observer: { attemptEnded: ({ outcome }: ObserverEvents['attemptEnded']) => reports.push(outcome.report) },
    });
    closing.push(() => dispatcher.destroy());
    await until('there is a sample', () => pod.load.application_utilization !== undefined);
    for (let request = 0; request < 2; request++) {
      const { body } = await dispatcher.request({ path: '/', method: 'GET' });
      expect(await body.json()).toEqual({ hello: 'world' });
    }
    await until('the attempts ended', () => reports.length === 2);
    // The first response says that the pod reports.
    expect(reports[1]).toMatchObject({ applicationUtilization: 0.5, namedMetrics: { evenkeel_in_flight: 1, jobs: 7 } });
  });

  it('no longer counts a request once its caller has gone', async () => {
    const pod = createBackend();
    closing.push(() => pod.close());
    const port = await start(pod);
    for (let time = 0; time < 20; time++) {
      const giveUp = new AbortController();
      const asked = fetch(`http://127.0.0.1:${port}/stream`, { signal: giveUp.signal }).then((answer) => answer.text());
      setImmediate(() => giveUp.abort());
      await asked.catch(() => {});
    }
    await until('none runs', () => pod.inFlight === 0);
  });

  it('sends no report with reports: false', async () => {
    const pod = createBackend({ reports: false });
    closing.push(() => pod.close());
    const port = await start(pod);
    const answer = await fetch(`http://127.0.0.1:${port}/`, { headers: { [ASK]: 'TEXT' } });
    await answer.text();
    expect(answer.headers.get(REPORT)).toBeNull();
  });
});
