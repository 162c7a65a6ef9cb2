import { loadReportPath } from '../load/orca.js';
import type { HttpRequest, HttpResponse } from './http-requests.js';

interface FastifyRequest {
  readonly raw: HttpRequest;
}

interface FastifyReply {
  readonly raw: HttpResponse;
  /** Fastify leaves the answer to others. */
  hijack(): unknown;
  callNotFound(): unknown;
}

type FastifyHook = (request: FastifyRequest, reply: FastifyReply, done: () => void) => void;

/** What of Fastify is used, which is not imported. */
interface FastifyInstance {
  addHook(name: 'onRequest' | 'preValidation', hook: FastifyHook): unknown;
  get(
    path: string,
    options: { readonly logLevel: 'silent'; readonly schema: { readonly hide: true } },
    handler: (request: FastifyRequest, reply: FastifyReply) => void,
  ): unknown;
}

/** A plugin as `register` takes it. */
export type FastifyPlugin = (instance: FastifyInstance, options: unknown, done: (error?: Error) => void) => void;

/** What a plugin tells of a request, in whatever part of the application it is served. */
export interface FastifyListener {
  begin(request: HttpRequest, response: HttpResponse, serve: () => void, leave: () => void): void;
  /** Its body was read. Undefined = nobody wants to know. */
  readonly resume: ((response: HttpResponse, serve: () => void) => void) | undefined;
}

export function fastifyPlugin({ begin, resume }: FastifyListener): FastifyPlugin {
  const plugin: FastifyPlugin = (instance, _options, done) => {
    instance.addHook('onRequest', (request, reply, next) => {
      begin(request.raw, reply.raw, next, () => void reply.hijack());
    });
    // Fastify logs every request, those without a route as not found. This one has a route for the sake of its log level.
    const quiet = { logLevel: 'silent', schema: { hide: true } } as const;
    instance.get(loadReportPath, quiet, (_request, reply) => {
      reply.callNotFound();
    });
    if (resume !== undefined) {
      instance.addHook('preValidation', (_request, reply, next) => resume(reply.raw, next));
    }
    done();
  };
  // Fastify gives a plugin a scope of its own otherwise, and its hooks would be for that alone.
  return Object.assign(plugin, {
    [Symbol.for('skip-override')]: true,
    [Symbol.for('fastify.display-name')]: 'evenkeel',
  });
}
