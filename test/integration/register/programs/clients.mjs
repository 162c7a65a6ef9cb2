// An app that asks the Service by one client library: `GET /<id>` is answered with what the library got, a failure by status 502.
//   node clients.mjs <client>
import { createServer } from 'node:http';

const { ORDERS, ORDERS_GRPC, API_SERVER, API_TOKEN, PORT } = process.env;
const orderUrl = (id) => `${ORDERS}/orders/${id}`;

/** Every fourth order is sent instead of asked for. `get` and `post` give what was answered, as text. */
const both = (get, post) => (id) =>
  Number(id) % 4 === 0 ? post(`${ORDERS}/orders`, JSON.stringify({ id, note: 'new '.repeat(500) })) : get(orderUrl(id));

const byUndici = (request) =>
  both(
    async (url) => (await request(url)).body.text(),
    async (url, body) => (await request(url, { method: 'POST', body })).body.text(),
  );
const byFetch = (fetch) =>
  both(
    async (url) => (await fetch(url)).text(),
    async (url, body) => (await fetch(url, { method: 'POST', body })).text(),
  );

/** @type {Record<string, () => Promise<(id: string) => Promise<unknown>>>} */
const clients = {
  fetch: async () => byFetch((...request) => fetch(...request)),
  async undici() {
    const copies = await Promise.all([import('undici6'), import('undici7'), import('undici8')]);
    const asks = copies.flatMap(({ request, fetch }) => [byUndici(request), byFetch(fetch)]);
    return (id) => asks[Number(id) % asks.length](id);
  },
  async 'node:http'() {
    const { request } = await import('node:http');
    const send = (url, options, body) =>
      new Promise((resolve, reject) => {
        const sent = request(url, options, (response) => {
          let text = '';
          response.setEncoding('utf8').on('data', (chunk) => {
            text += chunk;
          });
          response.on('error', reject).on('end', () => resolve(text));
        });
        sent.on('error', reject).end(body);
      });
    return both(
      (url) => send(url, {}),
      (url, body) => send(url, { method: 'POST' }, body),
    );
  },
  async axios() {
    const { default: axios } = await import('axios');
    const text = { responseType: 'text', transformResponse: (data) => data };
    return both(
      async (url) => (await axios.get(url, text)).data,
      async (url, body) => (await axios.post(url, body, text)).data,
    );
  },
  async got() {
    const { default: got } = await import('got');
    return both(
      (url) => got(url, { retry: { limit: 0 } }).text(),
      (url, body) => got.post(url, { body, retry: { limit: 0 } }).text(),
    );
  },
  async 'node-fetch'() {
    const { default: nodeFetch } = await import('node-fetch');
    return byFetch(nodeFetch);
  },
  async superagent() {
    const { default: superagent } = await import('superagent');
    return both(
      async (url) => (await superagent.get(url)).text,
      async (url, body) => (await superagent.post(url).type('text').send(body)).text,
    );
  },
  async openai() {
    const { default: OpenAI } = await import('openai');
    const openai = new OpenAI({ apiKey: 'none', baseURL: ORDERS, maxRetries: 0 });
    return (id) => openai.chat.completions.create({ model: 'm', messages: [{ role: 'user', content: id }] });
  },
  async '@aws-sdk/client-s3'() {
    const { S3Client, GetObjectCommand } = await import('@aws-sdk/client-s3');
    const credentials = { accessKeyId: 'none', secretAccessKey: 'none' };
    const s3 = new S3Client({ endpoint: ORDERS, region: 'none', credentials, maxAttempts: 1, forcePathStyle: true });
    return async (id) => (await s3.send(new GetObjectCommand({ Bucket: 'orders', Key: id }))).Body.transformToString();
  },
  async '@elastic/elasticsearch'() {
    const { Client, HttpConnection } = await import('@elastic/elasticsearch');
    const client = new Client({ node: ORDERS, Connection: HttpConnection, maxRetries: 0 });
    return (id) => client.get({ index: 'documents', id });
  },
  async 'nice-grpc'() {
    const { createChannel, createClient } = await import('nice-grpc');
    const { loadPackageDefinition } = await import('@grpc/grpc-js');
    const { loadSync } = await import('@grpc/proto-loader');
    const { shop } = loadPackageDefinition(loadSync('orders.proto'));
    const orders = createClient(shop.Orders.service, createChannel(ORDERS_GRPC));
    return (id) => orders.Get({ id });
  },
  async eventsource() {
    const { EventSource } = await import('eventsource');
    return (id) => firstMessage(new EventSource(`${ORDERS}/events/${id}`));
  },
  // Node's own needs --experimental-eventsource.
  'EventSource of Node': async () => (id) => firstMessage(new EventSource(`${ORDERS}/events/${id}`)),
  async ws() {
    const { WebSocket } = await import('ws');
    return bySocket(WebSocket);
  },
  'WebSocket of Node': async () => bySocket(WebSocket),
  async '@kubernetes/client-node'() {
    const { DiscoveryV1Api, KubeConfig } = await import('@kubernetes/client-node');
    const config = new KubeConfig();
    const cluster = { name: 'own', server: API_SERVER, skipTLSVerify: true };
    config.loadFromClusterAndUser(cluster, { name: 'own', token: API_TOKEN });
    const api = config.makeApiClient(DiscoveryV1Api);
    return async () => (await api.listNamespacedEndpointSlice({ namespace: 'shop' })).items.length;
  },
};

/** The first message of a stream of events or a WebSocket, which then is closed. */
function firstMessage(source) {
  return new Promise((resolve, reject) => {
    source.addEventListener('message', ({ data }) => {
      resolve(data);
      source.close();
    });
    source.addEventListener('error', ({ error, message, code }) => {
      reject(error ?? new Error(message || `error ${code ?? ''}`));
      source.close();
    });
    source.addEventListener('close', () => reject(new Error('closed')));
  });
}

function bySocket(WebSocket) {
  return (id) => {
    const socket = new WebSocket(`${ORDERS.replace('http', 'ws')}/socket`);
    socket.addEventListener('open', () => socket.send(id));
    return firstMessage(socket);
  };
}

const ask = await clients[process.argv[2]]();
createServer(async (request, response) => {
  try {
    const answer = await ask(/\d+/.exec(request.url)[0]);
    response.end(typeof answer === 'string' ? answer : JSON.stringify(answer));
  } catch (error) {
    response.writeHead(502).end(String(error.code ?? error.cause?.code ?? error));
  }
}).listen(Number(PORT), '127.0.0.1');
