// Apps that pass requests on to the Service: `node proxies.mjs <library>`.
const { ORDERS, PORT } = process.env;

const proxies = {
  async 'http-proxy-middleware'() {
    const { default: express } = await import('express');
    const { createProxyMiddleware } = await import('http-proxy-middleware');
    const app = express();
    app.use(createProxyMiddleware({ target: `${ORDERS}/orders` }));
    app.listen(Number(PORT), '127.0.0.1');
  },
  '@fastify/reply-from': () => replyFrom({}),
  '@fastify/reply-from, http: {}': () => replyFrom({ http: {} }),
  '@fastify/reply-from, globalAgent: true': () => replyFrom({ globalAgent: true }),
};

async function replyFrom(options) {
  const { default: fastify } = await import('fastify');
  const { default: plugin } = await import('@fastify/reply-from');
  const app = fastify();
  app.register(plugin, { base: ORDERS, ...options });
  app.get('/:id', (request, reply) => reply.from(`/orders/${request.params.id}`));
  await app.listen({ port: Number(PORT), host: '127.0.0.1' });
}

await proxies[process.argv[2]]();
