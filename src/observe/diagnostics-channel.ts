import { type Channel, channel } from 'node:diagnostics_channel';
import { notify, type Observer, type ObserverEvents, observerEventNames, observerOf, observes } from './observer.js';

/** What is published on `evenkeel:<event>`: the observer's value, and the name of the resolver. */
export type DiagnosticsEvents = {
  readonly [Event in keyof ObserverEvents]: ObserverEvents[Event] & { readonly resolver: string };
};

/**
 * An observer that tells `counts` and `observer`, and publishes on the `node:diagnostics_channel` named `evenkeel:<event>`, with
 * the event's value plus `resolver`, the name of the resolver. While nobody subscribes and neither has such a hook, there is
 * none, so that a call site can leave out the work (`observes`).
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
