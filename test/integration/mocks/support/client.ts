import http from 'node:http';
import https from 'node:https';
import { text } from 'node:stream/consumers';
import type { Resolver } from 'evenkeel';
import { createAgent } from 'evenkeel/node-http';
import { createAppAgent, createDispatcher, createFetch } from 'evenkeel/undici';
import { request } from 'undici';

export interface Answer {
  readonly status: number;
  readonly body: string;
}

/** A client of ours as the code of an app holds it. */
export interface Client extends AsyncDisposable {
  /** Asks for a path of the Service it is for, or for a URL. */
  ask(path: string, body?: string): Promise<Answer>;
}

export interface ClientOptions {
  readonly resolver: Resolver;
  /** What the pods' certificates are checked against, where the origin is https. */
  readonly ca?: string;
}

const tlsOf = ({ ca }: ClientOptions): object => (ca === undefined ? {} : { tls: { ca } });

/** Every way to send HTTP through us. */
export const clients: Readonly<Record<string, (origin: string, options: ClientOptions) => Client>> = {
  createFetch: (origin, options) => {
    const orders = createFetch(origin, { resolver: options.resolver, ...tlsOf(options) });
    return {
      ask: async (path, body) => {
        const response = await orders(path, body === undefined ? {} : { method: 'POST', body });
        return { status: response.status, body: await response.text() };
      },
      [Symbol.asyncDispose]: () => orders.close(),
    };
  },
  'undici.request': (origin, options) => {
    const dispatcher = createDispatcher(origin, { resolver: options.resolver, ...tlsOf(options) });
    return {
      ask: async (path, body) => {
        const url = new URL(path, origin);
        const more = body === undefined ? {} : { method: 'POST' as const, body };
        const response = await request(url, { dispatcher, ...more });
        return { status: response.statusCode, body: await response.body.text() };
      },
      [Symbol.asyncDispose]: () => dispatcher.close(),
    };
  },
  createAppAgent: (origin, options) => {
    const dispatcher = createAppAgent({
      services: ({ host }) => host === new URL(origin).host,
      options: () => ({ resolver: options.resolver, ...tlsOf(options) }),
    });
    return {
      ask: async (path, body) => {
        const init = body === undefined ? {} : { method: 'POST', body };
        const response = await fetch(new URL(path, origin), { ...init, dispatcher } as never);
        return { status: response.status, body: await response.text() };
      },
      [Symbol.asyncDispose]: () => dispatcher.close(),
    };
  },
  createAgent: (origin, options) => {
    const agent = createAgent(origin, { resolver: options.resolver, ...tlsOf(options) });
    return {
      ask: (path, body) =>
        new Promise((resolve, reject) => {
          const url = new URL(path, origin);
          // msw takes the place of the module's function, which a named import would not see.
          const { request: send } = url.protocol === 'https:' ? https : http;
          const outgoing = send(url, { agent, method: body === undefined ? 'GET' : 'POST' }, (response) => {
            const { statusCode = 0 } = response;
            text(response).then((all) => resolve({ status: statusCode, body: all }), reject);
          });
          outgoing.on('error', reject);
          outgoing.end(body);
        }),
      [Symbol.asyncDispose]: () => agent.close(),
    };
  },
};
