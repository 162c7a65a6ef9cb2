import 'reflect-metadata';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { All, Controller, type INestApplication, Module, Req } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { Backend } from 'evenkeel/server';
import express from 'express';
import fastify from 'fastify';
import Koa from 'koa';

/** What an application does with a request: its body was read, and what comes back is the answer. */
export type Work = (request: IncomingMessage, body: string) => Promise<string>;

/** An application in a framework that gives each request to `work`, with the pod's middleware first. Returns its port. */
export type StartApp = (pod: Backend, work: Work, closing: (() => unknown)[]) => Promise<number>;

async function listen(server: Server, closing: (() => unknown)[]): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) text += chunk;
  return text;
}

async function answer(request: IncomingMessage, response: ServerResponse, work: Work): Promise<void> {
  const text = await work(request, await textOf(request));
  response.end(text);
}

export const frameworks: Record<string, StartApp> = {
  'node:http': (pod, work, closing) =>
    listen(
      createServer(pod.http((request, response) => void answer(request, response, work).catch(() => {}))),
      closing,
    ),
  Express: (pod, work, closing) => {
    const app = express();
    app.use(pod.express);
    app.use(express.text({ type: () => true, limit: '1mb' }));
    app.use(async (request, response) => {
      const { body } = request as { readonly body?: unknown };
      response.send(await work(request, typeof body === 'string' ? body : ''));
    });
    app.use(((_error, _request, response, _next) => void response.status(500).end()) as express.ErrorRequestHandler);
    return listen(createServer(app), closing);
  },
  Fastify: async (pod, work, closing) => {
    const app = fastify({ forceCloseConnections: true });
    await app.register(pod.fastify);
    app.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, done) => done(null, body));
    app.all('/*', async ({ raw, body }) => work(raw, typeof body === 'string' ? body : ''));
    closing.push(() => app.close());
    await app.listen({ port: 0, host: '127.0.0.1' });
    return (app.server.address() as AddressInfo).port;
  },
  Koa: (pod, work, closing) => {
    const app = new Koa();
    app.silent = true;
    app.use(pod.koa);
    app.use(async (context) => {
      context.body = await work(context.req, await textOf(context.req));
    });
    return listen(createServer(app.callback()), closing);
  },
  Nest: async (pod, work, closing) => {
    class Orders {
      async all(request: IncomingMessage & { readonly body?: unknown }): Promise<string> {
        return work(request, typeof request.body === 'string' ? request.body : '');
      }
    }
    // What the decorators of a Nest application come down to.
    Reflect.defineMetadata('design:paramtypes', [Object], Orders.prototype, 'all');
    Req()(Orders.prototype, 'all', 0);
    All('*path')(
      Orders.prototype,
      'all',
      Object.getOwnPropertyDescriptor(Orders.prototype, 'all') as PropertyDescriptor,
    );
    Controller()(Orders);
    class App {}
    Module({ controllers: [Orders] })(App);
    const app: INestApplication = await NestFactory.create(App, { logger: false, bodyParser: false });
    app.use(pod.express);
    app.use(express.text({ type: () => true, limit: '1mb' }));
    closing.push(() => app.close());
    await app.listen(0, '127.0.0.1');
    const server = app.getHttpServer() as Server;
    closing.push(() => server.closeAllConnections());
    return (server.address() as AddressInfo).port;
  },
};
