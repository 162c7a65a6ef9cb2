import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { liveBalancers } from '../balancer/snapshot.js';
import { prometheusText } from '../metrics/index.js';
import { timeOfDay } from '../runtime/wall-clock.js';
import { type AdminOptions, adminTable } from './options.js';
import { pageOf } from './page.js';
import type { AdminBalancer, PageData, UnbalancedClient } from './page-data.js';
import { refusalOf } from './page-rules.js';
import { type RecentEvent, RecentEvents } from './recent-events.js';
import { withoutSecrets } from './secrets.js';

export type { AdminBalancer, AdminOptions, PageData, RecentEvent, UnbalancedClient };

/**
 * A request handler for `node:http`, which is also middleware for Express: with `next`, it passes on requests for paths that are not its
 * own.
 */
export interface AdminHandler {
  (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void): void;
  /** Ends the event streams of this handler's clients, and forgets the events it kept. */
  close(): void;
}

/** How many clients may follow `/events` at once; further ones get a 503. */
const MAX_STREAMS = 10;
/** A client of `/events` is disconnected when this many bytes wait to be read by it. */
const MAX_UNREAD = 256 * 1024;

/**
 * Creates a handler that shows what the balancers of this process do, for people and programs: a page (`/`), JSON (`/balancers`),
 * Prometheus' text format (`/metrics`), and events as they happen (`/events`, server-sent). The handler changes nothing and shows no
 * credentials, but it does show addresses and names: serve it on loopback or a debug port, not to the internet. Throws EVENKEEL_OPTION for
 * invalid options.
 *
 * @example createServer(createAdminHandler()).listen(9901, '127.0.0.1');
 */
export function createAdminHandler(options: AdminOptions = {}): AdminHandler {
  const { perEndpoint, ...settings } = adminTable.resolve(options);
  const hosts = new Set(settings.hosts.map((host) => host.toLowerCase()));
  const events = new RecentEvents(timeOfDay);
  const streams = new Set<ServerResponse>();
  const handler = (request: IncomingMessage, response: ServerResponse, next?: () => void): void => {
    const { path, name } = pathOf(request);
    const known = answers.get(name);
    if (known === undefined) {
      if (next === undefined) refuse(response, 404, 'not found');
      else next();
      return;
    }
    const refusal = refusalOf(request, hosts);
    if (refusal !== undefined) {
      if (refusal.status === 405) response.setHeader('allow', 'GET, HEAD');
      refuse(response, refusal.status, refusal.text);
      return;
    }
    // Relative URLs on the admin page need a path that ends with a slash.
    if (name === '' && !path.endsWith('/')) {
      response.setHeader('location', `./${encodeURIComponent(path.slice(path.lastIndexOf('/') + 1))}/`);
      refuse(response, 302, 'see the address with a final slash');
      return;
    }
    known(request, response);
  };
  // A map, because names come from outside: an object would also know `constructor`.
  const answers: ReadonlyMap<string, (request: IncomingMessage, response: ServerResponse) => void> = new Map([
    ['', sendPage],
    ['balancers', (_request, response) => send(response, 'application/json', balancersText())],
    ['metrics', (_request, response) => send(response, 'text/plain; version=0.0.4', prometheusText({ perEndpoint }))],
    ['events', (request, response) => stream(request, response, events, streams)],
  ]);
  return Object.assign(handler, {
    close: () => {
      events.close();
      for (const response of streams) response.end();
    },
  });
}

/**
 * Returns the whole path of a request as the browser sees it, and the last part of the path, which names one of the handler's own pages.
 */
function pathOf(request: IncomingMessage): { readonly path: string; readonly name: string } {
  // Express removes the path at which the handler is mounted from `url`.
  const { originalUrl } = request as { readonly originalUrl?: unknown };
  const url = request.url ?? '/';
  const withoutQuery = (text: string): string => text.split('?', 1)[0] as string;
  const path = withoutQuery(typeof originalUrl === 'string' ? originalUrl : url);
  const own = withoutQuery(url);
  return { path, name: own.slice(own.lastIndexOf('/') + 1) };
}

function send(response: ServerResponse, type: string, text: string): void {
  common(response);
  response.setHeader('content-type', type);
  response.end(text);
}

function sendPage(_request: IncomingMessage, response: ServerResponse): void {
  const nonce = randomBytes(16).toString('base64');
  const own = `'nonce-${nonce}'`;
  response.setHeader(
    'content-security-policy',
    `default-src 'none'; style-src ${own}; script-src ${own}; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'`,
  );
  send(response, 'text/html; charset=utf-8', pageOf(nonce));
}

function refuse(response: ServerResponse, status: number, text: string): void {
  response.statusCode = status;
  send(response, 'text/plain; charset=utf-8', `${text}\n`);
}

function common(response: ServerResponse): void {
  response.setHeader('cache-control', 'no-store');
  response.setHeader('x-content-type-options', 'nosniff');
  response.setHeader('referrer-policy', 'no-referrer');
}

/**
 * Returns the clients that `register.cjs` found and does not balance. `register.cjs` keeps them under a global symbol, because it may
 * belong to another copy of evenkeel; processes that do not use it have none.
 */
function foundByRegister(): Pick<PageData, 'unbalanced'> {
  const state = (globalThis as { [register]?: { readonly left: ReadonlyMap<string, Omit<UnbalancedClient, 'what'>> } })[
    register
  ];
  return state === undefined ? {} : { unbalanced: [...state.left].map(([what, facts]) => ({ what, ...facts })) };
}

const register = Symbol.for('evenkeel.register');
const ids = new WeakMap<object, number>();
let lastId = 0;

function balancersText(): string {
  const balancers = [...liveBalancers].map((balancer): AdminBalancer => {
    let id = ids.get(balancer);
    if (id === undefined) {
      id = ++lastId;
      ids.set(balancer, id);
    }
    return { id, ...balancer.snapshot() };
  });
  const data: PageData = { balancers, ...foundByRegister() };
  return JSON.stringify(data, (_key, value) => (typeof value === 'string' ? withoutSecrets(value) : value));
}

function stream(
  request: IncomingMessage,
  response: ServerResponse,
  events: RecentEvents,
  streams: Set<ServerResponse>,
): void {
  if (streams.size >= MAX_STREAMS) {
    refuse(response, 503, 'too many streams');
    return;
  }
  common(response);
  response.setHeader('content-type', 'text/event-stream');
  if (request.method === 'HEAD') {
    response.end();
    return;
  }
  const tell = (event: RecentEvent): void => {
    if (response.writableLength > MAX_UNREAD) response.destroy();
    else response.write(`id: ${event.id}\ndata: ${JSON.stringify(event)}\n\n`);
  };
  response.flushHeaders();
  for (const event of events.kept) tell(event);
  const stop = events.listen(tell);
  streams.add(response);
  response.once('close', () => {
    stop();
    streams.delete(response);
  });
}
