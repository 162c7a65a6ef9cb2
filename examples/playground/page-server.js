// @ts-check
/** Serves the page and its live data on loopback, and carries out the actions of its buttons. */
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { actions } from './actions.js';

const PUSH_MS = 200;
const MAX_VIEWERS = 16;
const MAX_BODY_BYTES = 1_024;
// A viewer that does not read is disconnected before it costs memory.
const MAX_UNSENT_BYTES = 1_000_000;
const DEFAULT_PORT = 8_080;

const FILES = new Map([
  ['/', { file: 'index.html', type: 'text/html; charset=utf-8' }],
  ['/style.css', { file: 'style.css', type: 'text/css; charset=utf-8' }],
  ['/app.js', { file: 'app.js', type: 'text/javascript; charset=utf-8' }],
  ['/tabs.js', { file: 'tabs.js', type: 'text/javascript; charset=utf-8' }],
  ['/panel.js', { file: 'panel.js', type: 'text/javascript; charset=utf-8' }],
  ['/scene.js', { file: 'scene.js', type: 'text/javascript; charset=utf-8' }],
  ['/drawing.js', { file: 'drawing.js', type: 'text/javascript; charset=utf-8' }],
  ['/look.js', { file: 'look.js', type: 'text/javascript; charset=utf-8' }],
  ['/layout.js', { file: 'layout.js', type: 'text/javascript; charset=utf-8' }],
  ['/icon.svg', { file: 'icon.svg', type: 'image/svg+xml' }],
]);

const SECURITY_HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
};

/** @typedef {import('node:http').IncomingMessage} Request */
/** @typedef {import('node:http').ServerResponse} Response */

/**
 * @param {object} options
 * @param {number | undefined} options.port undefined: 8080, or any other when that is taken
 * @param {() => object} options.state what every viewer sees
 * @param {(action: string, pod: string | undefined) => Promise<void>} options.act rejects with what the user should read
 */
export async function startPageServer({ port, state, act }) {
  /** @type {Set<Response>} */
  const viewers = new Set();
  const server = createServer((request, response) => {
    void answer(request, response).catch(() => response.destroy());
  });

  /** @param {Request} request @param {Response} response */
  async function answer(request, response) {
    for (const [name, value] of Object.entries(SECURITY_HEADERS)) response.setHeader(name, value);
    if (!isOurHost(request)) return reply(response, 403, 'this page answers to 127.0.0.1 and localhost alone');
    const path = new URL(request.url ?? '/', 'http://localhost').pathname;
    if (path.startsWith('/actions/')) return takeAction(path.slice('/actions/'.length), request, response);
    if (request.method !== 'GET' && request.method !== 'HEAD') return reply(response, 405, 'only GET here');
    if (path === '/events') return watch(response);
    const found = FILES.get(path);
    if (found === undefined) return reply(response, 404, 'there is no such page');
    response.setHeader('content-type', found.type);
    response.end(await readFile(new URL(`page/${found.file}`, import.meta.url)));
  }

  /** @param {string} name @param {Request} request @param {Response} response */
  async function takeAction(name, request, response) {
    if (request.method !== 'POST') return reply(response, 405, 'actions are taken by POST');
    // A page of another site may send a POST here, but cannot fake its origin.
    if (request.headers.origin !== `http://${request.headers.host}`) {
      return reply(response, 403, 'actions are taken from this page alone');
    }
    const action = Object.hasOwn(actions, name) ? actions[name] : undefined;
    if (action === undefined) return reply(response, 404, `there is no action ${name}`);
    const pod = new URLSearchParams(await readBody(request)).get('pod') ?? undefined;
    try {
      await act(name, pod);
    } catch (error) {
      return reply(response, 409, error instanceof Error ? error.message : String(error));
    }
    reply(response, 200, 'done');
  }

  /** @param {Response} response */
  function watch(response) {
    if (viewers.size >= MAX_VIEWERS) return reply(response, 503, 'too many pages are open');
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('retry: 1000\n\n');
    viewers.add(response);
    response.on('close', () => viewers.delete(response));
  }

  const pushing = setInterval(() => {
    if (viewers.size === 0) return;
    const event = `data: ${JSON.stringify(state())}\n\n`;
    for (const viewer of viewers) {
      if (viewer.writableLength > MAX_UNSENT_BYTES) viewer.destroy();
      else viewer.write(event);
    }
  }, PUSH_MS);

  const boundPort = await listen(server, port);
  return {
    url: `http://127.0.0.1:${boundPort}`,
    viewers: () => viewers.size,
    close() {
      clearInterval(pushing);
      server.close();
      server.closeAllConnections();
    },
  };
}

/** Another host name means a site that had its own name resolve to this address. @param {Request} request */
function isOurHost(request) {
  const host = (request.headers.host ?? '').replace(/:\d+$/, '');
  return host === '127.0.0.1' || host === 'localhost';
}

/** @param {Response} response @param {number} status @param {string} text */
function reply(response, status, text) {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(text);
}

/** @param {Request} request */
async function readBody(request) {
  let body = '';
  for await (const chunk of request) {
    body += chunk;
    if (body.length > MAX_BODY_BYTES) throw new Error('the request is too long');
  }
  return body;
}

/** @param {import('node:http').Server} server @param {number | undefined} wanted @returns {Promise<number>} */
function listen(server, wanted) {
  return new Promise((resolve, reject) => {
    server.on('error', (/** @type {NodeJS.ErrnoException} */ error) => {
      if (wanted === undefined && error.code === 'EADDRINUSE') server.listen(0, '127.0.0.1');
      else reject(error);
    });
    server.on('listening', () => {
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : 0);
    });
    server.listen(wanted ?? DEFAULT_PORT, '127.0.0.1');
  });
}
