import { channel } from 'node:diagnostics_channel';
import { notify, type Observer, type ObserverEvents } from './observer.js';

const eventNames = [
  'resolved',
  'resolveFailed',
  'resolveRecovered',
  'rungChanged',
  'subchannelChanged',
  'ejected',
  'restored',
  'panicChanged',
  'attemptEnded',
  'refused',
  'warned',
] as const satisfies readonly (keyof ObserverEvents)[];

/**
 * An observer that tells `observer` and publishes on the `node:diagnostics_channel` named `evenkeel:<event>`, with the
 * event's value plus `target`, the name of the resolver. A channel nobody subscribed to costs nanoseconds.
 */
export function withDiagnostics(observer: Observer, target: string): Observer {
  const bridged: { [Event in keyof ObserverEvents]?: (value: never) => void } = {};
  for (const event of eventNames) {
    const diagnostics = channel(`evenkeel:${event}`);
    bridged[event] = (value: never) => {
      notify(observer, event, value);
      if (diagnostics.hasSubscribers) diagnostics.publish({ target, ...(value as object) });
    };
  }
  return bridged as Observer;
}
