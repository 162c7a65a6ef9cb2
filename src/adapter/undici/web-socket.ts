import type { Duplex } from 'node:stream';
import type { Dispatcher, Pool } from 'undici';
import { type Lease, outcomes } from '../../index.js';
import { type Attempts, afterPendingIo, closeFrame, type Placements } from '../kit/index.js';
import { type HandlerV2, tellFailed, withRawHeaders } from './handler.js';
import { type WebSocketLimits, type WebSocketOptions, webSocketDefaults } from './options.js';

/** The limits of any dispatcher, if it has them. */
export function webSocketLimitsOf(dispatcher: Dispatcher): WebSocketLimits {
  const { webSocketOptions } = dispatcher as { readonly webSocketOptions?: Partial<WebSocketLimits> };
  return { ...webSocketDefaults, ...webSocketOptions };
}

/**
 * The limits of a dispatcher in front of others. A WebSocket reads its dispatcher's limits when it opens, in the turn in which its
 * upgrade was answered, and does not say where it goes. So the limits are those of the connection upgraded in this turn; of several,
 * the smallest.
 */
export class OpeningWebSockets {
  readonly #own: WebSocketLimits;
  #opening: WebSocketLimits | undefined;

  constructor(own: WebSocketLimits) {
    this.#own = own;
  }

  get limits(): WebSocketLimits {
    return this.#opening ?? this.#own;
  }

  /** Wraps `handler`, for a request that may become a WebSocket with `limits`. */
  watched(handler: HandlerV2, limits: () => WebSocketLimits): HandlerV2 {
    return tellingUpgrade(handler, () => this.#opens(limits()));
  }

  #opens(limits: WebSocketLimits): void {
    const before = this.#opening;
    this.#opening = before === undefined ? limits : smaller(before, limits);
    if (before !== undefined) return;
    afterPendingIo(() => {
      this.#opening = undefined;
    });
  }
}

/** Passes everything on to `handler`, and reports the upgrade first. */
function tellingUpgrade(handler: HandlerV2, upgraded: () => void): HandlerV2 {
  return {
    onRequestStart: (controller, context) => handler.onRequestStart(controller, context),
    onRequestUpgrade: (controller, status, headers, socket) => {
      upgraded();
      handler.onRequestUpgrade?.(controller, status, headers, socket);
    },
    onResponseStarted: () => handler.onResponseStarted?.(),
    onResponseStart: (controller, status, headers, statusText) => {
      withRawHeaders(controller, headers);
      handler.onResponseStart?.(controller, status, headers, statusText);
    },
    onResponseData: (controller, chunk) => handler.onResponseData?.(controller, chunk),
    onResponseEnd: (controller, trailers) => handler.onResponseEnd?.(controller, trailers),
    onResponseError: (controller, error) => tellFailed(handler, controller, error),
    onBodySent: (chunk) => handler.onBodySent?.(chunk),
    onRequestSent: () => handler.onRequestSent?.(),
  };
}

function smaller(some: WebSocketLimits, others: WebSocketLimits): WebSocketLimits {
  return {
    maxPayloadSize: smallerLimit(some.maxPayloadSize, others.maxPayloadSize),
    maxFragments: smallerLimit(some.maxFragments, others.maxFragments),
  };
}

/** The smaller of two limits; 0 means none. */
function smallerLimit(one: number, other: number): number {
  return one === 0 || other === 0 ? Math.max(one, other) : Math.min(one, other);
}

/**
 * The connection of a call became its caller's own: the lease lasts until it is closed. `placed`: the endpoint has it; what that returns
 * is called when it is closed.
 */
export function holdUpgraded(
  attempts: Attempts<Pool>,
  status: number,
  socket: Duplex,
  placed: (lease: Lease<Pool>) => (() => void) | undefined,
): void {
  const outcome = status >= 500 ? outcomes.status : outcomes.success;
  attempts.answeredWith(status);
  const lease = attempts.conclude(outcome);
  if (lease === undefined) return;
  lease.progressed();
  const { note } = attempts;
  // Its end may be hours away.
  if (outcome === outcomes.success) lease.works();
  const released = placed(lease);
  socket.once('close', () => {
    released?.();
    lease.end(outcome, undefined, note);
    attempts.report(lease);
  });
}

/**
 * Places a WebSocket, which leaves its pod as the options of its request, or of the dispatcher, say. Only its connection is known here.
 * Call the result when it is closed.
 */
export function placeWebSocket(
  placements: Placements,
  lease: Lease<Pool>,
  socket: Duplex,
  request: Dispatcher.DispatchOptions,
  { onLeaving: byDefault, leaveCode = webSocketDefaults.leaveCode }: WebSocketOptions,
): () => void {
  const { onLeaving = byDefault } = request as Pick<WebSocketOptions, 'onLeaving'>;
  return placements.hold(lease, {
    leave: (leaving) => {
      onLeaving?.(leaving, socket);
      return onLeaving !== undefined;
    },
    finish: () => void socket.write(closeFrame(leaveCode, '')),
    cut: () => void socket.destroy(),
  });
}
