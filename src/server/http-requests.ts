import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import type { Socket } from 'node:net';
import type { RequestCount } from './request-count.js';

/** A request of node:http, or of node:http2 in its compatible form. */
export type HttpRequest = IncomingMessage | Http2ServerRequest;
export type HttpResponse = ServerResponse | Http2ServerResponse;

/** On a response: who has counted it. A WeakSet would cost more than all the rest. */
const countedBy = Symbol('evenkeel.countedBy');
/** On a socket: the requests on it whose responses have none yet. */
const queuedRequests = Symbol('evenkeel.queuedRequests');

interface Marked {
  [countedBy]?: HttpRequests;
}

interface MarkedSocket extends Socket {
  [queuedRequests]?: Set<() => void>;
}

/** Counts the requests of HTTP servers, each once, however many layers of an application tell of it. */
export class HttpRequests {
  readonly #count: RequestCount;

  constructor(count: RequestCount) {
    this.#count = count;
  }

  /** A request came. False if it was told of before, or is over already: its caller may be gone before a middleware runs. */
  began(request: HttpRequest, response: HttpResponse): boolean {
    if ((response as Marked)[countedBy] === this || isOver(response)) return false;
    (response as Marked)[countedBy] = this;
    const count = this.#count;
    count.began();
    if (request.httpVersionMajor < 2 && response.socket === null) {
      countQueued(count, request as IncomingMessage, response as ServerResponse);
      return true;
    }
    let isOpen = true;
    // Comes after every end, that of the connection included.
    response.on('close', () => {
      if (!isOpen) return;
      isOpen = false;
      count.ended(response.statusCode >= 500);
    });
    return true;
  }
}

/**
 * A response that has no socket waits behind others on the same connection (pipelining), or somebody made it for an upgrade, or for a
 * test without a connection. Node does not tell when the connection is lost.
 */
function countQueued(
  count: RequestCount,
  { socket }: { readonly socket: MarkedSocket },
  response: ServerResponse,
): void {
  let isOpen = true;
  const over = (): void => {
    if (!isOpen) return;
    isOpen = false;
    count.ended(response.statusCode >= 500);
    queue?.delete(over);
  };
  response.on('finish', over);
  response.on('close', over);
  const queue = queueOf(socket);
  queue?.add(over);
}

function queueOf(socket: MarkedSocket): Set<() => void> | undefined {
  if (typeof socket?.on !== 'function') return undefined;
  const known = socket[queuedRequests];
  if (known !== undefined) return known;
  const queue = new Set<() => void>();
  socket[queuedRequests] = queue;
  socket.on('close', () => {
    for (const over of queue) over();
  });
  return queue;
}

function isOver(response: HttpResponse): boolean {
  const { destroyed, writableFinished, stream } = response as Partial<ServerResponse> & Partial<Http2ServerResponse>;
  return destroyed === true || writableFinished === true || stream?.destroyed === true;
}
