import type { ClientRequest, ClientRequestArgs } from 'node:http';
import { connect as connectTcp } from 'node:net';
import type { Duplex } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { outcomeOfAnswer } from '../http/answer.js';
import { addRequest, endWithoutSocket, protocolOf, type RequestOptions, setProtocol } from '../http/internals.js';
import type { OriginMatcher } from '../http/origin.js';
import { PendingRequest } from '../http/pending-request.js';
import { answeredOn, closeFrame, type HeldSocket, nodeHttp, type SocketPlacer } from '../kit/index.js';

type Created = (error: Error | null, stream: Duplex) => void;

/** What an agent for WebSockets needs to open connections to pods. */
export interface AgentParts {
  readonly placer: SocketPlacer;
  readonly origin: OriginMatcher;
  readonly isSecure: boolean;
}

/** Key of a request option that says how the request's connection leaves its pod. Node keeps options that it does not know. */
export const heldBy: unique symbol = Symbol('evenkeel.heldBy');

interface HeldOptions {
  readonly [heldBy]?: HeldSocket;
}

/** An `http.Agent` that opens a connection to a pod for each request to the Service. */
export class PlacingAgent extends nodeHttp.Agent {
  readonly #parts: AgentParts;
  readonly #held: HeldSocket | undefined;
  /** The request for which Node's Agent is opening a connection right now. */
  #current: ClientRequest | undefined;

  /** @param held How connections leave their pod, for requests without the option `heldBy`. */
  constructor(parts: AgentParts, held?: HeldSocket) {
    super();
    this.#parts = parts;
    this.#held = held;
    // An agent without a protocol accepts any request: a redirect may lead from `wss:` to `ws:`, or back.
    setProtocol(this, undefined, parts.isSecure ? 443 : 80);
  }

  // Node calls `addRequest` for every request, although Node's types omit it.
  addRequest(request: ClientRequest, options: RequestOptions): void {
    if (request.getHeader('upgrade') !== undefined) {
      request.prependOnceListener('response', (answer) => {
        const { socket, statusCode = 0, headers } = answer;
        const outcome = outcomeOfAnswer(statusCode, (name) => headers[name], undefined);
        if (outcome !== undefined) answeredOn(socket, outcome);
        // Because of this listener, Node no longer discards a response that nobody reads.
        if (request.listenerCount('response') === 0) answer.resume();
      });
    }
    this.#current = request;
    try {
      addRequest(this, request, options);
    } finally {
      this.#current = undefined;
    }
  }

  override createConnection(options: ClientRequestArgs, created?: Created): Duplex | undefined {
    const { origin } = this.#parts;
    const { host, port } = options;
    const isSecure = protocolOf(this, options) === 'https:';
    const at = host?.includes(':') ? `[${host}]` : host;
    if (!origin.matches(`${isSecure ? 'https' : 'http'}://${at}:${port}`)) {
      return isSecure ? connectTls(options as never) : connectTcp(options as never);
    }
    this.#connect(this.#current, (options as HeldOptions)[heldBy] ?? this.#held, created);
    // Nothing is returned, because the socket is passed to the callback.
    return undefined;
  }

  /**
   * Opens the connection of a request. While a request has no socket, Node does not emit that its caller gave it up or that it timed out,
   * so `PendingRequest` watches it.
   */
  #connect(request: ClientRequest | undefined, held: HeldSocket | undefined, created: Created | undefined): void {
    const { placer } = this.#parts;
    const gaveUp = new AbortController();
    const pending =
      request &&
      new PendingRequest(request, placer.clock, () => {
        if (gaveUp.signal.aborted) return;
        gaveUp.abort();
        pending?.release();
        endWithoutSocket(request);
      });
    placer.connect({ signal: gaveUp.signal }, held).then(
      (socket) => {
        if (gaveUp.signal.aborted) {
          socket.on('error', () => {}).destroy();
          return;
        }
        pending?.release();
        created?.(null, socket);
      },
      (error: Error) => {
        if (gaveUp.signal.aborted) return;
        pending?.release();
        created?.(error, undefined as never);
      },
    );
  }
}

/** An agent for libraries that do not expose their WebSockets. */
export class SharedAgent extends PlacingAgent {
  /** The sockets of this agent that became WebSockets. */
  readonly #upgraded: WeakSet<object>;

  constructor(parts: AgentParts, leave: HeldSocket['leave'], code: number, reason: string) {
    const upgraded = new WeakSet<object>();
    super(parts, {
      leave,
      finish: (socket) => {
        // The server answers this close frame, so the library sees a WebSocket that the server closed.
        if (upgraded.has(socket)) socket.write(closeFrame(code, reason));
        else socket.end();
      },
    });
    this.#upgraded = upgraded;
    setProtocol(this, parts.isSecure ? 'https:' : 'http:', parts.isSecure ? 443 : 80);
  }

  override addRequest(request: ClientRequest, options: RequestOptions): void {
    if (request.getHeader('upgrade') !== undefined) {
      request.prependOnceListener('upgrade', (_answer, socket: object) => void this.#upgraded.add(socket));
    }
    super.addRequest(request, options);
  }
}
