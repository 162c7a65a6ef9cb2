import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import type { Socket } from 'node:net';
import type { RequestCount } from './request-count.js';

/** A request of `node:http`, or of the compatibility API of `node:http2`. */
export type HttpRequest = IncomingMessage | Http2ServerRequest;
export type HttpResponse = ServerResponse | Http2ServerResponse;

/**
 * The property of a response that holds the `HttpRequests` that has counted its request. A WeakSet would cost more than everything else in
 * this file.
 */
const countedBy = Symbol('evenkeel.countedBy');
/** The property of a socket that holds its pipelined requests, whose responses have no socket yet. */
const queuedRequests = Symbol('evenkeel.queuedRequests');

interface Marked {
  [countedBy]?: HttpRequests;
}

interface MarkedSocket extends Socket {
  [queuedRequests]?: Set<() => void>;
}

/** Notified of the end of one request. */
export interface RequestFollower {
  /** @param isAnswered Whether the whole response was sent. @param isFailure Whether the response means that the server failed. */
  over(isAnswered: boolean, isFailure: boolean): void;
}

/** Counts the requests of HTTP servers. Each counts once, even if several layers of an application report it. */
export class HttpRequests {
  readonly #count: RequestCount;

  constructor(count: RequestCount) {
    this.#count = count;
  }

  /** Whether a request is new, was reported before, or is over: its caller may have left before a middleware runs. */
  meets(response: HttpResponse): 'new' | 'known' | 'gone' {
    if ((response as Marked)[countedBy] === this) return 'known';
    return isOver(response) ? 'gone' : 'new';
  }

  /** Counts a new request, and calls `follower` when the request is over. */
  began(request: HttpRequest, response: HttpResponse, follower: RequestFollower | undefined): void {
    (response as Marked)[countedBy] = this;
    const count = this.#count;
    count.began();
    let isOpen = true;
    follow(request, response, () => {
      if (!isOpen) return;
      isOpen = false;
      const isFailure = response.statusCode >= 500;
      count.ended(isFailure);
      follower?.over(isAnswered(response), isFailure);
    });
  }

  /** Calls `follower` when a request is over, without counting the request. */
  follow(request: HttpRequest, response: HttpResponse, follower: RequestFollower): void {
    const over = (): void => follower.over(isAnswered(response), false);
    if (isOver(response)) over();
    else follow(request, response, over);
  }
}

/** Calls `over` at the end of a request, possibly twice. */
function follow(request: HttpRequest, response: HttpResponse, over: () => void): void {
  if (request.httpVersionMajor < 2 && response.socket === null) {
    followQueued(over, request as IncomingMessage, response as ServerResponse);
    return;
  }
  // Node emits `close` after every kind of end, even after a lost connection.
  response.on('close', over);
}

/**
 * Calls `over` at the end of a request whose response has no socket, possibly twice. Such a response waits behind others on its connection
 * (pipelining), or was created for an upgrade or by a test. Node does not emit `close` on it when the connection is lost.
 */
function followQueued(over: () => void, { socket }: { readonly socket: MarkedSocket }, response: ServerResponse): void {
  const ended = (): void => {
    queue?.delete(ended);
    over();
  };
  response.on('finish', ended);
  response.on('close', ended);
  const queue = queueOf(socket);
  queue?.add(ended);
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

/** Whether the whole response was sent, as far as the server can know. */
function isAnswered(response: HttpResponse): boolean {
  const { writableFinished, writableEnded } = response;
  return 'stream' in response ? writableEnded : writableFinished;
}

function isOver(response: HttpResponse): boolean {
  const { destroyed, writableFinished, stream } = response as Partial<ServerResponse> & Partial<Http2ServerResponse>;
  return destroyed === true || writableFinished === true || stream?.destroyed === true;
}
