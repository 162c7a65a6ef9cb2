// An app that knows nothing of evenkeel: sends requests with one client, and prints which pods answered.
//   node app.mjs <client> <url>[,<url> …] [<count> | "until told" | "until 3 pods"]
const [, , client, urls = '', count = '30'] = process.argv;
const [url = ''] = urls.split(',');

/** @type {Record<string, () => Promise<(url: string) => Promise<unknown>>>} */
const clients = {
  fetch: async () => async (to) => (await fetch(to)).json(),
  undici: async () => {
    const { request } = await import('undici');
    return async (to) => (await request(to)).body.json();
  },
  'undici fetch': async () => {
    const undici = await import('undici');
    return async (to) => (await undici.fetch(to)).json();
  },
  'undici with a URL object': async () => {
    const { getGlobalDispatcher } = await import('undici');
    return async (to) => {
      const { origin, pathname: path } = new URL(to);
      const own = { origin: new URL(origin), path, method: 'GET' };
      return (await getGlobalDispatcher().request(own)).body.json();
    };
  },
  undici8: async () => {
    const { request } = await import('undici8');
    return async (to) => (await request(to)).body.json();
  },
  'fetch beside undici': async () => {
    const { request } = await import('undici');
    let calls = 0;
    return async (to) => (calls++ % 2 === 0 ? (await fetch(to)).json() : (await request(to)).body.json());
  },
  undici6: async () => {
    const { request } = await import('undici6');
    return async (to) => (await request(to)).body.json();
  },
  'undici 6, 7 and 8 in turn': async () => {
    const { request: six, fetch: fetchOfSix } = await import('undici6');
    const { request: seven, fetch: fetchOfSeven } = await import('undici');
    const { request: eight, fetch: fetchOfEight } = await import('undici8');
    const requests = [six, seven, eight].map((request) => async (to) => (await request(to)).body.json());
    const fetches = [fetch, fetchOfSix, fetchOfSeven, fetchOfEight].map((own) => async (to) => (await own(to)).json());
    const all = [...requests, ...fetches];
    let calls = 0;
    return (to) => all[calls++ % all.length](to);
  },
  'http.get': async () => {
    const { get } = await import('node:http');
    return (to) =>
      new Promise((resolve, reject) => {
        get(to, (response) => {
          let text = '';
          response.setEncoding('utf8').on('data', (chunk) => {
            text += chunk;
          });
          response.on('end', () => resolve(JSON.parse(text)));
        }).on('error', reject);
      });
  },
  'https.get': async () => {
    const { get } = await import('node:https');
    return (to) => new Promise((resolve, reject) => get(to, () => resolve({ pod: 'some' })).on('error', reject));
  },
  'agent of the app': async () => {
    const { Agent, get } = await import('node:http');
    const agent = new Agent({ keepAlive: true, timeout: 30_000 });
    return (to) =>
      new Promise((resolve, reject) => {
        get(to, { agent }, (response) => {
          let text = '';
          response.setEncoding('utf8').on('data', (chunk) => {
            text += chunk;
          });
          response.on('end', () => resolve(JSON.parse(text)));
        }).on('error', reject);
      });
  },
  'agent with two sockets': async () => {
    const { Agent, get } = await import('node:http');
    const agent = new Agent({ keepAlive: true, maxSockets: 2 });
    let running = 0;
    return (to) =>
      new Promise((resolve, reject) => {
        const request = get(to, { agent }, (response) => {
          let text = '';
          response.setEncoding('utf8').on('data', (chunk) => {
            text += chunk;
          });
          response.on('end', () => resolve(JSON.parse(text)));
        });
        request.on('socket', () => {
          running++;
          if (running > 2) reject(new Error(`${running} requests at once`));
        });
        request.on('close', () => running--);
        request.on('error', reject);
      });
  },
  's3 of AWS': async () => {
    const { S3Client, ListBucketsCommand } = await import('@aws-sdk/client-s3');
    const credentials = { accessKeyId: 'none', secretAccessKey: 'none' };
    const { origin } = new URL(url);
    const s3 = new S3Client({ endpoint: origin, region: 'none', credentials, maxAttempts: 1, forcePathStyle: true });
    return async () => {
      // The pods' answers are no XML; the error says whose answer it was.
      const error = await s3.send(new ListBucketsCommand({})).catch((thrown) => thrown);
      if (error.$response === undefined) throw error;
      return { pod: error.$response.headers['x-pod'] };
    };
  },
  elasticsearch: async () => {
    const { Client, HttpConnection } = await import('@elastic/elasticsearch');
    const { origin } = new URL(url);
    const client = new Client({ node: origin, Connection: HttpConnection, maxRetries: 0 });
    return async () => {
      const answer = await client.transport
        .request({ method: 'GET', path: '/' }, { meta: true })
        .catch((error) => error.meta);
      if (answer?.headers?.['x-pod'] === undefined) throw new Error('no answer');
      return { pod: answer.headers['x-pod'] };
    };
  },
  axios: async () => {
    const { default: axios } = await import('axios');
    return async (to) => (await axios.get(to, { adapter: 'http' })).data;
  },
  got: async () => {
    const { default: got } = await import('got');
    return (to) => got(to).json();
  },
  'node-fetch': async () => {
    const { default: nodeFetch } = await import('node-fetch');
    return async (to) => (await nodeFetch(to)).json();
  },
  superagent: async () => {
    const { default: superagent } = await import('superagent');
    return async (to) => (await superagent.get(to)).body;
  },
  needle: async () => {
    const { default: needle } = await import('needle');
    return async (to) => (await needle('get', to, { json: true })).body;
  },
  'grpc-js': async () => grpcClient(await import('@grpc/grpc-js')),
  'grpc-js by require': async () => {
    const { createRequire } = await import('node:module');
    return grpcClient(createRequire(import.meta.url)('@grpc/grpc-js'));
  },
  'nice-grpc': async () => {
    const { createChannel, createClient } = await import('nice-grpc');
    const client = createClient({ say: methodOf() }, createChannel(url));
    return async () => ({ pod: String(await client.say(Buffer.from('who'))) });
  },
  ws: async () => {
    const { default: WebSocket } = await import('ws');
    return (to) => greeting(new WebSocket(to, { handshakeTimeout: 30_000 }));
  },
  'ws by require': async () => {
    const { createRequire } = await import('node:module');
    const { WebSocket } = createRequire(import.meta.url)('ws');
    return (to) => greeting(new WebSocket(to, ['v1', 'v2']));
  },
  'WebSocket of Node': async () => (to) => greeting(new WebSocket(to)),
  openai: async () => {
    const { default: OpenAI } = await import('openai');
    const openai = new OpenAI({ apiKey: 'none', baseURL: url, maxRetries: 0 });
    return () => openai.get('/models');
  },
};

/** The name that a server greets with. The connection stays open. */
function greeting(socket) {
  return new Promise((resolve, reject) => {
    socket.addEventListener('message', ({ data }) => resolve({ pod: JSON.parse(data).name }));
    socket.addEventListener('error', ({ error, message }) => reject(error ?? new Error(message)));
  });
}

/** A method whose messages are texts. */
function methodOf() {
  const asIs = (bytes) => Buffer.from(bytes);
  return {
    path: '/shop.Orders/Say',
    requestStream: false,
    responseStream: false,
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  };
}

/** A client as generated code makes one. */
function grpcClient({ credentials, makeGenericClientConstructor }) {
  const Orders = makeGenericClientConstructor({ Say: methodOf() }, 'shop.Orders');
  const orders = new Orders(url, credentials.createInsecure());
  return () =>
    new Promise((resolve, reject) => {
      orders.Say(Buffer.from('who'), (error, answer) => (error ? reject(error) : resolve({ pod: String(answer) })));
    });
}

const get = await clients[client]();
const targets = urls.split(',');
const pods = {};
const failed = {};
let begun = 0;
let ended = 0;
const one = async () => {
  try {
    const { pod } = await get(targets[begun++ % targets.length]);
    pods[pod] = (pods[pod] ?? 0) + 1;
  } catch (error) {
    const code = error.code ?? error.cause?.code ?? error.message;
    failed[code] = (failed[code] ?? 0) + 1;
  }
  ended++;
};
// Until it is told to stop, or so many pods have answered, or `count` times: ten at a time.
let isOver = false;
const [, wanted] = /^until (\d+) pods$/.exec(count) ?? [];
function isMore() {
  if (wanted === undefined) return count === 'until told' || ended < Number(count);
  return Object.keys(failed).length === 0 && Object.keys(pods).length < Number(wanted);
}
process.on('message', () => {
  isOver = true;
});
do await Promise.all(Array.from({ length: 10 }, one));
while (!isOver && isMore());
console.log(JSON.stringify({ pods, failed }));
if (process.connected) process.disconnect();
// These keep their connections.
if (/grpc|ws|WebSocket/.test(client)) process.exit();
