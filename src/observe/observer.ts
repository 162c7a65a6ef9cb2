import { type Channel, channel } from 'node:diagnostics_channel';
import type { Endpoint } from '../endpoint/endpoint.js';
import type { Outcome } from '../endpoint/outcome.js';
import type { EvenkeelError, ResolveError } from '../errors.js';
import { ignoreRejection } from '../runtime/ignore-rejection.js';
import { attemptChannels, callChannels } from './traces.js';

/** The states of a subchannel, mostly in gRPC's words. */
export type SubchannelState = 'idle' | 'connecting' | 'ready' | 'backoff' | 'draining' | 'closed';

/** What the hooks of an observer get. Each event is a plain object that is created for the hook. */
export interface ObserverEvents {
  /** The resolver published a set. */
  resolved: { readonly endpoints: readonly Endpoint[]; readonly version: number; readonly reason?: string };
  /** The resolver could not get a set; the last one stays in use. Emitted once per kind of failure, not per attempt. */
  resolveFailed: { readonly error: ResolveError; readonly stale: boolean };
  /** The resolver's last set was confirmed after a failure. */
  resolveRecovered: { readonly staleForMs: number };
  /** A plain target's endpoints are found in another way: in which, why, and what would be better. */
  discoveryChanged: {
    readonly target: string;
    readonly mode: string;
    readonly reason: string;
    readonly advice?: string;
  };
  /** The subchannel of an endpoint changed its state; `error` is what ended its connection or its attempt to connect. */
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
     * Why the endpoint was ejected, for programs: failures in a row, calls without a response, the share of failures, a failed call on
     * probation, failed health probes (`activeHealth`), or the server's own word (MySQL, PostgreSQL, Redis), which is reported again when
     * its reason changes.
     */
    readonly cause?: 'consecutive' | 'unanswered' | 'ratio' | 'probation' | 'probe' | 'server';
    /** For how long the endpoint is ejected, in ms; with the cause `server`, how soon the server is checked again. */
    readonly durationMs: number;
  };
  /** The endpoint is no longer suspect and gets calls again. `reason` says why, in words for people. */
  restored: { readonly endpoint: Endpoint; readonly reason: string };
  /** `panicking` is true when all endpoints are used because too many are suspect, and false when this is over. */
  panicChanged: { readonly panicking: boolean; readonly suspects: number; readonly total: number };
  /** One attempt of a call ended. `retrying` says whether another attempt follows on another endpoint. */
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
  /** A call got no endpoint, and its caller got this error, whose `code` says why, such as EVENKEEL_NOT_READY. */
  refused: { readonly error: EvenkeelError };
  /** Something unexpected happened and was handled; it is worth a line in a log. */
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
 * An application's hooks, by event name. Hooks are called synchronously, in the middle of other work, and may call the balancer. Errors
 * that a hook throws or rejects with are ignored, because observing must not break anything.
 */
export type Observer = {
  readonly [Event in keyof ObserverEvents]?: ((event: ObserverEvents[Event]) => void) | undefined;
};

/** Whether anything listens to `event`. If not, the event's object need not be created. */
export function observes(observer: Observer, event: keyof ObserverEvents): boolean {
  return observer[event] !== undefined;
}

const { start, end, asyncStart, asyncEnd, error } = callChannels;
const { start: sent, end: began, asyncStart: ending, asyncEnd: ended, error: failed } = attemptChannels;

/**
 * The channel on which undici publishes new requests. Tools that create spans for undici's requests take the parent from the async context.
 * A retry or a hedge starts in the context of a socket or a timer, and only a traced call restores its own.
 */
const undiciRequests = channel('undici:request:create');

/** Whether calls are traced. Runs for every call. It does not use `TracingChannel.hasSubscribers`, which some runtimes do not have. */
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

/** Calls the observer's hook for `event`. Errors that the hook throws or rejects with are ignored. */
export function notify<Event extends keyof ObserverEvents>(
  observer: Observer,
  event: Event,
  value: ObserverEvents[Event],
): void {
  const hook = observer[event];
  if (hook === undefined) return;
  try {
    // A hook may be an async function, whose rejection must not stay unhandled.
    ignoreRejection(hook.call(observer, value));
  } catch {
    // An error that a hook throws is the application's own problem.
  }
}

/** Creates an observer that passes every event on to several observers. */
export function combineObservers(observers: readonly Observer[]): Observer {
  return observerOf(
    (event) => observers.some((observer) => observes(observer, event)),
    (event, value) => {
      for (const observer of observers) notify(observer, event, value);
    },
  );
}

/** Creates an observer whose hooks all call `tell`. A hook exists only while something `listens` to its event. */
function observerOf(
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

/** The messages on the diagnostics channels `evenkeel:<event>`: what an observer gets, and the name of the resolver. */
export type DiagnosticsEvents = {
  readonly [Event in keyof ObserverEvents]: ObserverEvents[Event] & { readonly resolver: string };
};

/**
 * Creates an observer that passes events on to `counts` and `observer`, and publishes them on the `node:diagnostics_channel` named
 * `evenkeel:<event>`, together with the name of the resolver. While nothing listens to an event, this observer has no hook for it, so that
 * callers can skip the work (`observes`).
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
