import { LineError } from '../api/line-reader.js';
import { parseStatus, type StatusFacts } from '../api/status.js';
import { isObject, metadataOf, textOf, type Unchecked } from '../api/unchecked.js';

/** A parsed line of a watch. */
export type WatchEvent =
  | {
      readonly type: 'put' | 'delete';
      readonly name: string;
      readonly version: string | undefined;
      readonly object: Unchecked;
    }
  /**
   * An event that only carries a version, which Kubernetes calls a bookmark. If `endsInitialEvents` is true, the state that a streaming
   * list starts with is complete.
   */
  | { readonly type: 'bookmark'; readonly version: string | undefined; readonly endsInitialEvents: boolean }
  | { readonly type: 'error'; readonly status: StatusFacts }
  /** An event that is ignored, because its type or the kind of its object is unknown. */
  | { readonly type: 'other'; readonly what: string };

/** Reads a line of a watch. Throws LineError for anything that is not a JSON object with `type` and `object.metadata`. */
export function parseWatchEvent(line: string): WatchEvent {
  let event: unknown;
  try {
    event = JSON.parse(line);
  } catch (cause) {
    throw new LineError(`a line is not JSON: ${excerpt(line)}`, { cause });
  }
  const type = isObject(event) ? textOf(event.type) : undefined;
  const object = isObject(event) && isObject(event.object) ? event.object : undefined;
  if (type === undefined || object === undefined) throw new LineError(`a line is no event: ${excerpt(line)}`);
  // An error is read before the metadata is checked: a proxy may send a Status object without metadata.
  if (type === 'ERROR') return { type: 'error', status: parseStatus(object) };
  const metadata = metadataOf(object);
  if (metadata === undefined) throw new LineError(`an event has no object.metadata: ${excerpt(line)}`);
  const version = textOf(metadata.resourceVersion);
  if (type === 'BOOKMARK') {
    const annotations = isObject(metadata.annotations) ? metadata.annotations : {};
    return { type: 'bookmark', version, endsInitialEvents: annotations['k8s.io/initial-events-end'] === 'true' };
  }
  if (type !== 'ADDED' && type !== 'MODIFIED' && type !== 'DELETED')
    return { type: 'other', what: `event type ${excerpt(type)}` };
  if (object.kind !== undefined && object.kind !== 'EndpointSlice') {
    return { type: 'other', what: `object of kind ${excerpt(textOf(object.kind) ?? '')}` };
  }
  const name = textOf(metadata.name);
  if (name === undefined) throw new LineError(`an event's object has no name: ${excerpt(line)}`);
  return { type: type === 'DELETED' ? 'delete' : 'put', name, version, object };
}

function excerpt(line: string): string {
  return JSON.stringify(line.length > 80 ? `${line.slice(0, 80)}…` : line);
}
