import type { Endpoint } from '../endpoint/endpoint.js';
import type { Observer } from '../observe/observer.js';
import type { Note } from './format.js';
import type { LiveSubchannels } from './live-subchannels.js';
import type { RecordWriter } from './record-writer.js';

/** Texts in a recording that are longer than this are truncated, in characters. */
const MAX_TEXT = 300;

/** An observer that records why endpoints are left out, for display. */
export function noteObserver(
  nowMs: () => number,
  live: LiveSubchannels,
  writer: RecordWriter,
  panicked: () => void,
): Observer {
  const note = (endpoint: Endpoint | undefined, what: Note['what'], more: Partial<Note> = {}): void => {
    const text = more.text?.slice(0, MAX_TEXT);
    const made: Note = { k: 'note', at: nowMs(), what, ...more, ...(text && { text }) };
    writer.json(endpoint === undefined ? made : live.note(endpoint, made));
  };
  return {
    ejected: ({ endpoint, reason, durationMs }) => note(endpoint, 'ejected', { text: reason, durationMs }),
    restored: ({ endpoint, reason }) => note(endpoint, 'restored', { text: reason }),
    panicChanged: ({ panicking, suspects, total }) => {
      note(undefined, panicking ? 'panic' : 'calm', { text: `${suspects} of ${total} endpoints are suspect` });
      if (panicking) panicked();
    },
    resolveFailed: ({ error }) => note(undefined, 'resolve-failed', { text: error.message }),
    resolveRecovered: () => note(undefined, 'recovered'),
    subchannelChanged: ({ endpoint, to, error }) => {
      if (to === 'backoff') note(endpoint, 'lost', { text: error?.message ?? 'the connection ended' });
    },
  };
}
