import type { Dispatcher } from 'undici';
import { afterPendingIo, type Complete, checkKeys, checkNumber } from '../kit/index.js';
import { type HandlerV2, Relay } from './relay.js';

/** Limits for WebSockets. One that receives more is closed with 1006. Effective in undici versions that have these limits. */
export interface WebSocketOptions {
  /** Largest message, decompressed, in bytes; 0 = no limit. @defaultValue 134217728 (128 MiB), undici's own */
  readonly maxPayloadSize?: number | undefined;
  /** Fragments per message; 0 = no limit. @defaultValue 131072, undici's own */
  readonly maxFragments?: number | undefined;
}

/** The same, complete. */
export type WebSocketLimits = Complete<WebSocketOptions>;

export const webSocketDefaults: WebSocketLimits = Object.freeze({
  maxPayloadSize: 128 * 1024 * 1024,
  maxFragments: 131_072,
});

/** Fills in defaults. Throws EVENKEEL_OPTION for what does not fit. */
export function webSocketLimits(options: WebSocketOptions | undefined): WebSocketLimits {
  if (options === undefined) return webSocketDefaults;
  checkKeys('webSocket', options, ['maxPayloadSize', 'maxFragments']);
  const count = { min: 0, max: 2 ** 31 - 1, integer: true };
  const { maxPayloadSize, maxFragments } = webSocketDefaults;
  return {
    maxPayloadSize: checkNumber('webSocket.maxPayloadSize', options.maxPayloadSize, maxPayloadSize, count),
    maxFragments: checkNumber('webSocket.maxFragments', options.maxFragments, maxFragments, count),
  };
}

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
    return new Relay(handler, { upgraded: () => this.#opens(limits()) });
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
