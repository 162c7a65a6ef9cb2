import type { Duplex } from 'node:stream';
import type { Dispatcher, Pool } from 'undici';
import type { Balancer, Clock, Lease, Rng } from '../../index.js';
import { afterPendingIo, closeFrame, Placements, type ResolvedPlacingOptions } from '../kit/index.js';
import { type HandlerV2, tellFailed, withRawHeaders } from './handler.js';
import { type WebSocketLimits, type WebSocketOptions, webSocketDefaults } from './options.js';

/** The limits a dispatcher of any kind has, if it has any. */
export function webSocketLimitsOf(dispatcher: Dispatcher): WebSocketLimits {
  const { webSocketOptions } = dispatcher as { readonly webSocketOptions?: Partial<WebSocketLimits> };
  return { ...webSocketDefaults, ...webSocketOptions };
}

/**
 * The limits of a dispatcher in front of others. A WebSocket asks its dispatcher for them as it opens, in the turn in
 * which its upgrade was answered, and does not say where it goes. So they are those of what was upgraded in this turn;
 * of several, the smaller.
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

  /** `handler`, for a request that may become a WebSocket with `limits`. */
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

/** Passes everything on to `handler`, and tells first of the upgrade. */
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

/** Where 0 is none. */
function smallerLimit(one: number, other: number): number {
  return one === 0 || other === 0 ? Math.max(one, other) : Math.min(one, other);
}

/** What `PlacedWebSockets` takes. */
export interface PlacedWebSocketsParts {
  readonly balancer: Balancer<Pool>;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly placing: ResolvedPlacingOptions;
  readonly onLeaving: WebSocketOptions['onLeaving'];
  readonly leaveCode: number;
}

/** The WebSockets of a dispatcher, which leave their pods as its options say. Here only their connections are known. */
export class PlacedWebSockets {
  readonly #placements: Placements;
  readonly #onLeaving: WebSocketOptions['onLeaving'];
  readonly #code: number;

  constructor({ balancer, clock, rng, placing, onLeaving, leaveCode }: PlacedWebSocketsParts) {
    this.#placements = new Placements({ balancer, clock, rng, options: placing });
    this.#onLeaving = onLeaving;
    this.#code = leaveCode;
  }

  /** Returns what to call when it is closed. */
  hold(lease: Lease<Pool>, socket: Duplex, options: Dispatcher.DispatchOptions): () => void {
    const { onLeaving = this.#onLeaving } = options as Pick<WebSocketOptions, 'onLeaving'>;
    return this.#placements.hold(lease, {
      leave: (leaving) => {
        onLeaving?.(leaving, socket);
        return onLeaving !== undefined;
      },
      finish: () => void socket.write(closeFrame(this.#code, '')),
      cut: () => void socket.destroy(),
    });
  }

  close(): void {
    this.#placements.close();
  }
}
