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

/** Opens connections for WebSockets. */
export interface AgentParts {
  readonly placer: SocketPlacer;
  readonly origin: OriginMatcher;
  readonly isSecure: boolean;
}

/** Option of a request: how its connection is told to leave, and closed. Node passes options on that it does not know. */
export const heldBy: unique symbol = Symbol('evenkeel.heldBy');

interface HeldOptions {
  readonly [heldBy]?: HeldSocket;
}

/** An agent whose connections to the Service go to its pods, one for each request. */
export class PlacingAgent extends nodeHttp.Agent {
  readonly #parts: AgentParts;
  readonly #held: HeldSocket | undefined;
  /** The request for which Node's Agent is asking for a connection. */
  #current: ClientRequest | undefined;

  /** @param held How the connections of requests without the option `heldBy` leave. */
  constructor(parts: AgentParts, held?: HeldSocket) {
    super();
    this.#parts = parts;
    this.#held = held;
    // Without a protocol Node allows any: a redirect may lead from `wss:` to `ws:`, or back.
    setProtocol(this, undefined, parts.isSecure ? 443 : 80);
  }

  // Node calls this for every request; its types omit it.
  addRequest(request: ClientRequest, options: RequestOptions): void {
    if (request.getHeader('upgrade') !== undefined) {
      request.prependOnceListener('response', (answer) => {
        const { socket, statusCode = 0, headers } = answer;
        const outcome = outcomeOfAnswer(statusCode, (name) => headers[name], undefined);
        if (outcome !== undefined) answeredOn(socket, outcome);
        // With a listener, Node no longer discards a response that nobody reads.
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
   * Opens the connection of a request. Until it has a socket, Node tells neither that the request was given up nor that its time is over.
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

/** Connections of libraries that do not expose their WebSockets. */
export class SharedAgent extends PlacingAgent {
  /** The connections that became WebSockets. */
  readonly #upgraded: WeakSet<object>;

  constructor(parts: AgentParts, leave: HeldSocket['leave'], code: number, reason: string) {
    const upgraded = new WeakSet<object>();
    super(parts, {
      leave,
      finish: (socket) => {
        // The other side answers this, so the library sees its WebSocket closed by the other side.
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
