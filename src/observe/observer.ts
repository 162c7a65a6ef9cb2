import { type Channel, channel } from 'node:diagnostics_channel';
import type { Endpoint } from '../endpoint/endpoint.js';
import type { Outcome } from '../endpoint/outcome.js';
import type { EvenkeelError, ResolveError } from '../errors.js';
import { ignoreRejection } from '../runtime/ignore-rejection.js';
import { attemptChannels, callChannels } from './traces.js';

/** States of a subchannel, in gRPC's words. */
export type SubchannelState = 'idle' | 'connecting' | 'ready' | 'backoff' | 'draining' | 'closed';

/** The values that an observer's hooks receive: plain objects, created after the fact and owned by the hook. */
export interface ObserverEvents {
  /** The resolver published a set. */
  resolved: { readonly endpoints: readonly Endpoint[]; readonly version: number; readonly reason?: string };
  /** The resolver could not get a set; the last one stays in use. Once per kind of failure, not per attempt. */
  resolveFailed: { readonly error: ResolveError; readonly stale: boolean };
  /** The resolver's last set was confirmed after a failure. */
  resolveRecovered: { readonly staleForMs: number };
  /** A plain target uses another discovery mode: which one, why, and what would be better. */
  discoveryChanged: {
    readonly target: string;
    readonly mode: string;
    readonly reason: string;
    readonly advice?: string;
  };
  /** The subchannel of an endpoint changed its state; `error` is what ended its connection or attempt. */
  subchannelChanged: {
    readonly endpoint: Endpoint;
    readonly from: SubchannelState;
    readonly to: SubchannelState;
    readonly error?: Error;
  };
  /** An endpoint is suspect and gets no calls for `durationMs`. */
  ejected: {
    readonly endpoint: Endpoint;
    /** Why the endpoint was ejected, in words for people. */
    readonly reason: string;
    /**
     * Why the endpoint was ejected, for programs: failures in a row, calls without an answer, the share of failures, a failed call on
     * probation, failed health probes (`activeHealth`), or the server's own report (MySQL, PostgreSQL, Redis), which is reported once more
     * when its reason changes.
     */
    readonly cause?: 'consecutive' | 'unanswered' | 'ratio' | 'probation' | 'probe' | 'server';
    /** For how long the endpoint is ejected, in ms; with `server`, how soon the server is asked again. */
    readonly durationMs: number;
  };
  /** The endpoint is no longer suspect: it gets calls again. `reason` says why, in words for people. */
  restored: { readonly endpoint: Endpoint; readonly reason: string };
  /** All endpoints are used because too many are suspect (true), or no longer (false). */
  panicChanged: { readonly panicking: boolean; readonly suspects: number; readonly total: number };
  /** One attempt of a call ended; `retrying`: another follows on another endpoint. */
  attemptEnded: {
    readonly endpoint: Endpoint;
    readonly outcome: Outcome;
    /** The number of the attempt, from 1. */
    readonly attempt: number;
    readonly retrying: boolean;
    /** Whether the attempt was a hedge: it ran beside an earlier, slow one. */
    readonly hedged?: boolean;
    readonly error?: unknown;
  };
  /** A call got no endpoint, and its caller this error; its `code` says why, such as EVENKEEL_NOT_READY. */
  refused: { readonly error: EvenkeelError };
  /** Something unexpected was handled; worth a log line. */
  warned: { readonly message: string; readonly error?: unknown };
}

/** The names of all events. */
export const observerEventNames: readonly (keyof ObserverEvents)[] = Object.freeze([
  'resolved',
  'resolveFailed',
  'resolveRecovered',
  'discoveryChanged',
  'subchannelChanged',
  'ejected',
  'restored',
  'panicChanged',
  'attemptEnded',
  'refused',
  'warned',
] as const satisfies readonly (keyof ObserverEvents)[]);

/**
 * Hooks by event name. They are called synchronously, in the middle of other work, and may call the balancer. Errors a hook throws or
 * rejects with are swallowed, because observing must not break anything.
 */
export type Observer = {
  readonly [Event in keyof ObserverEvents]?: ((event: ObserverEvents[Event]) => void) | undefined;
};

/** Whether anything listens to `event`: lets call sites skip creating its value. */
export function observes(observer: Observer, event: keyof ObserverEvents): boolean {
  return observer[event] !== undefined;
}

const { start, end, asyncStart, asyncEnd, error } = callChannels;
const { start: sent, end: began, asyncStart: ending, asyncEnd: ended, error: failed } = attemptChannels;

/**
 * The channel on which undici publishes a new request. Tools that make spans of undici's requests take the parent from the async context: a
 * retry or a hedge starts in the context of a socket or a timer, and only a traced call restores its own.
 */
const undiciRequests = channel('undici:request:create');

/** Whether calls are traced. On the path of every call. It does not use `TracingChannel.hasSubscribers`, which not every runtime has. */
export function isTraced(): boolean {
  return (
    undiciRequests.hasSubscribers ||
    start.hasSubscribers ||
    sent.hasSubscribers ||
    asyncEnd.hasSubscribers ||
    ended.hasSubscribers ||
    error.hasSubscribers ||
    failed.hasSubscribers ||
    asyncStart.hasSubscribers ||
    ending.hasSubscribers ||
    end.hasSubscribers ||
    began.hasSubscribers
  );
}

/** Calls an observer's hook for `event`; what the hook throws or rejects with is swallowed. */
export function notify<Event extends keyof ObserverEvents>(
  observer: Observer,
  event: Event,
  value: ObserverEvents[Event],
): void {
  const hook = observer[event];
  if (hook === undefined) return;
  try {
    // The type of a hook also allows an async function, whose rejection must not stay unhandled.
    ignoreRejection(hook.call(observer, value));
  } catch {
    // What a hook throws is the observer's own problem.
  }
}

/** An observer that forwards every event to several observers. */
export function combineObservers(observers: readonly Observer[]): Observer {
  return observerOf(
    (event) => observers.some((observer) => observes(observer, event)),
    (event, value) => {
      for (const observer of observers) notify(observer, event, value);
    },
  );
}

/** An observer whose hooks all call `tell`; a hook is present only while something `listens` to its event. */
export function observerOf(
  listens: (event: keyof ObserverEvents) => boolean,
  tell: <Event extends keyof ObserverEvents>(event: Event, value: ObserverEvents[Event]) => void,
): Observer {
  const observer = {};
  for (const event of observerEventNames) {
    const hook = (value: never): void => tell(event, value);
    Object.defineProperty(observer, event, { enumerable: true, get: () => (listens(event) ? hook : undefined) });
  }
  return observer;
}

/** What is published on `evenkeel:<event>`: the observer's value, and the name of the resolver. */
export type DiagnosticsEvents = {
  readonly [Event in keyof ObserverEvents]: ObserverEvents[Event] & { readonly resolver: string };
};

/**
 * An observer that forwards to `counts` and `observer`, and publishes on the `node:diagnostics_channel` named `evenkeel:<event>`, with the
 * event's value plus `resolver`, the name of the resolver. While an event has no subscriber and neither of the two has a hook for it, this
 * observer has no such hook either, so that a call site can skip the work (`observes`).
 */
export function withDiagnostics(observer: Observer, resolver: string, counts: Observer = {}): Observer {
  const channels = Object.fromEntries(
    observerEventNames.map((event) => [event, channel(`evenkeel:${event}`)]),
  ) as Record<keyof ObserverEvents, Channel>;
  return observerOf(
    (event) => observes(counts, event) || observes(observer, event) || channels[event].hasSubscribers,
    (event, value) => {
      notify(counts, event, value);
      notify(observer, event, value);
      const diagnostics = channels[event];
      if (diagnostics.hasSubscribers) diagnostics.publish({ ...value, resolver });
    },
  );
}
