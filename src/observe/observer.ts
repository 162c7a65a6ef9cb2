import type { Endpoint } from '../endpoint/endpoint.js';
import type { Outcome } from '../endpoint/outcome.js';
import type { EvenkeelError, ResolveError } from '../errors.js';

/** States of a subchannel, in gRPC's words. */
export type SubchannelState = 'idle' | 'connecting' | 'ready' | 'backoff' | 'draining' | 'closed';

/** What an observer is told: plain values, after the fact. Every event is an object literal owned by the callee. */
export interface ObserverEvents {
  /** The resolver published a set. */
  resolved: { readonly endpoints: readonly Endpoint[]; readonly version: number };
  /** The resolver could not look; the last set stays in use. Once per kind of failure, not per attempt. */
  resolveFailed: { readonly error: ResolveError; readonly stale: boolean };
  /** The resolver's last set was confirmed after a failure. */
  resolveRecovered: { readonly staleForMs: number };
  /** The ladder stands on another rung: where, why, and what would make it better. */
  rungChanged: { readonly target: string; readonly rung: string; readonly reason: string; readonly advice?: string };
  subchannelChanged: {
    readonly endpoint: Endpoint;
    readonly from: SubchannelState;
    readonly to: SubchannelState;
    readonly error?: Error;
  };
  /** A verdict stage doubts an endpoint, for `durationMs`. */
  ejected: { readonly endpoint: Endpoint; readonly reason: string; readonly durationMs: number };
  /** The doubt is over. */
  restored: { readonly endpoint: Endpoint; readonly reason: string };
  /** Too many doubted: all are used (true), or verdicts count again (false). */
  panicChanged: { readonly panicking: boolean; readonly doubted: number; readonly total: number };
  /** One attempt of a call ended; `retrying` says that another follows elsewhere. */
  attemptEnded: {
    readonly endpoint: Endpoint;
    readonly outcome: Outcome;
    /** From 1. */
    readonly attempt: number;
    readonly retrying: boolean;
    readonly error?: unknown;
  };
  /** A call could not be given an endpoint. */
  refused: { readonly error: EvenkeelError };
  /** Something odd that was handled; worth a log line. */
  warned: { readonly message: string; readonly error?: unknown };
}

/** Hooks by event name. What a hook throws is swallowed: watching must not break what is watched. */
export type Observer = {
  readonly [Event in keyof ObserverEvents]?: (event: ObserverEvents[Event]) => void;
};

/** Tells an observer, safely. */
export function notify<Event extends keyof ObserverEvents>(
  observer: Observer,
  event: Event,
  value: ObserverEvents[Event],
): void {
  const hook = observer[event];
  if (hook === undefined) return;
  try {
    hook.call(observer, value);
  } catch {
    // The observer's own trouble.
  }
}

/** An observer that tells several. */
export function combineObservers(observers: readonly Observer[]): Observer {
  if (observers.length === 1) return observers[0] as Observer;
  const events = new Set(observers.flatMap((observer) => Object.keys(observer) as (keyof ObserverEvents)[]));
  const combined: { [Event in keyof ObserverEvents]?: (value: never) => void } = {};
  for (const event of events) {
    combined[event] = (value: never) => {
      for (const observer of observers) notify(observer, event, value);
    };
  }
  return combined as Observer;
}
