import type { HttpRequest, HttpResponse } from './http-requests.js';

/** What of Fastify is used, which is not imported. */
interface FastifyInstance {
  addHook(
    name: 'onRequest',
    hook: (request: { readonly raw: HttpRequest }, reply: { readonly raw: HttpResponse }, done: () => void) => void,
  ): unknown;
}

/** A plugin as `register` takes it. */
export type FastifyPlugin = (instance: FastifyInstance, options: unknown, done: (error?: Error) => void) => void;

/** A plugin that tells of every request, in whatever part of the application it is served. */
export function fastifyPlugin(began: (request: HttpRequest, response: HttpResponse) => void): FastifyPlugin {
  const plugin: FastifyPlugin = (instance, _options, done) => {
    instance.addHook('onRequest', (request, reply, next) => {
      began(request.raw, reply.raw);
      next();
    });
    done();
  };
  // Fastify gives a plugin a scope of its own otherwise, and its hooks would be for that alone.
  return Object.assign(plugin, {
    [Symbol.for('skip-override')]: true,
    [Symbol.for('fastify.display-name')]: 'evenkeel',
  });
}
