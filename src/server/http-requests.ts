import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2';
import type { Socket } from 'node:net';
import type { RequestCount } from './request-count.js';

/** A request of node:http, or of node:http2's compatibility API. */
export type HttpRequest = IncomingMessage | Http2ServerRequest;
export type HttpResponse = ServerResponse | Http2ServerResponse;

/** The property of a response that holds who has counted it. A WeakSet would cost more than everything else here. */
const countedBy = Symbol('evenkeel.countedBy');
/** The property of a socket that holds its requests whose responses have no socket yet. */
const queuedRequests = Symbol('evenkeel.queuedRequests');

interface Marked {
  [countedBy]?: HttpRequests;
}

interface MarkedSocket extends Socket {
  [queuedRequests]?: Set<() => void>;
}

/** Follows one request. */
export interface RequestFollower {
  /** @param isAnswered Whether the whole response was sent. @param isFailure Whether that means a failure on this side. */
  over(isAnswered: boolean, isFailure: boolean): void;
}

/** Counts the requests of HTTP servers, each once, no matter how many layers of an application report it. */
export class HttpRequests {
  readonly #count: RequestCount;

  constructor(count: RequestCount) {
    this.#count = count;
  }

  /** Whether a request is new, already reported, or over: the caller may be gone before a middleware runs. */
  meets(response: HttpResponse): 'new' | 'known' | 'gone' {
    if ((response as Marked)[countedBy] === this) return 'known';
    return isOver(response) ? 'gone' : 'new';
  }

  /** Counts a new request, and calls `follower` when it is over. */
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

  /** Follows a request without counting it. */
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
  // `close` is emitted after every kind of end, including a lost connection.
  response.on('close', over);
}

/**
 * A response without a socket waits behind others on the same connection (pipelining), or was created for an upgrade or for a test
 * without a connection. Node does not say when such a connection is lost.
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

/** Whether the whole response was sent, as far as this side can know. */
function isAnswered(response: HttpResponse): boolean {
  const { writableFinished, writableEnded } = response;
  return 'stream' in response ? writableEnded : writableFinished;
}

function isOver(response: HttpResponse): boolean {
  const { destroyed, writableFinished, stream } = response as Partial<ServerResponse> & Partial<Http2ServerResponse>;
  return destroyed === true || writableFinished === true || stream?.destroyed === true;
}
