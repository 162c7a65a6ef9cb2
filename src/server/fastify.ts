import type { HttpRequest, HttpResponse } from './http-requests.js';

interface FastifyRequest {
  readonly raw: HttpRequest;
}

interface FastifyReply {
  readonly raw: HttpResponse;
  /** Makes Fastify leave the response to the code that calls this. */
  hijack(): unknown;
}

type FastifyHook = (request: FastifyRequest, reply: FastifyReply, done: () => void) => void;

/** The part of a Fastify instance that evenkeel uses, declared here so that Fastify is not imported. */
interface FastifyInstance {
  addHook(name: 'onRequest' | 'preValidation', hook: FastifyHook): unknown;
}

/** A plugin for Fastify's `register`. */
export type FastifyPlugin = (instance: FastifyInstance, options: unknown, done: (error?: Error) => void) => void;

/** Gets the requests that the Fastify plugin sees, from anywhere in the application. */
export interface FastifyListener {
  begin(request: HttpRequest, response: HttpResponse, serve: () => void, leave: () => void): void;
  /** Continues a request whose body Fastify has read. Undefined = not needed. */
  readonly resume: ((response: HttpResponse, serve: () => void) => void) | undefined;
}

export function fastifyPlugin({ begin, resume }: FastifyListener): FastifyPlugin {
  const plugin: FastifyPlugin = (instance, _options, done) => {
    instance.addHook('onRequest', (request, reply, next) => {
      begin(request.raw, reply.raw, next, () => void reply.hijack());
    });
    if (resume !== undefined) {
      instance.addHook('preValidation', (_request, reply, next) => resume(reply.raw, next));
    }
    done();
  };
  // Without this mark Fastify would give the plugin its own scope, and its hooks would apply only there.
  return Object.assign(plugin, {
    [Symbol.for('skip-override')]: true,
    [Symbol.for('fastify.display-name')]: 'evenkeel',
  });
}
