import { isEndpoint } from '../endpoint/endpoint.js';
import type { EndpointEntry, EndpointSet } from '../endpoint/endpoint-set.js';
import type { Warnings } from '../observe/warnings.js';
import { ignoreRejection } from '../runtime/ignore-rejection.js';
import type { Stage, Tracker } from '../stage/stage.js';

/**
 * The wall between the balancer and stages. What a stage throws becomes a warning, what it returns is checked, and everybody behind the
 * wall calls it without a thought. The trackers of our own stages are called directly, because they learn of every call.
 *
 * @param name The stage's name in warnings. @param isOurs Whether the library made the stage.
 */
export function guardStage(stage: Stage, name: string, isOurs: boolean, warnings: Warnings): Required<Stage> {
  return {
    apply: (set) => warnings.guarded(`${name} threw and was skipped`, () => checkedSet(stage.apply(set), set), set),
    track: (endpoint) =>
      warnings.guarded(
        'a stage threw in track()',
        () => {
          const tracker: unknown = stage.track?.(endpoint);
          if (typeof tracker !== 'object' || tracker === null) return {};
          return isOurs ? tracker : guardTracker(tracker, warnings);
        },
        {},
      ),
    close: () => warnings.guarded('a stage threw when it was closed', () => stage.close?.(), undefined),
  };
}

function guardTracker(tracker: Tracker, warnings: Warnings): Tracker {
  const tell = (call: () => void): void => warnings.guarded('the tracker of a stage threw', call, undefined);
  // A tracker without `completed` must stay one: it does not keep successes from being only counted.
  const completed: Tracker =
    tracker.completed === undefined ? {} : { completed: (...args) => tell(() => tracker.completed?.(...args)) };
  return {
    connected: () => tell(() => tracker.connected?.()),
    disconnected: (error) => tell(() => tracker.disconnected?.(error)),
    ...completed,
    get ignoresSuccess(): boolean {
      return warnings.guarded('the tracker of a stage threw', () => tracker.ignoresSuccess === true, false);
    },
    probed: () => tell(() => tracker.probed?.()),
    closed: () => tell(() => tracker.closed?.()),
  };
}

function checkedSet(next: EndpointSet, before: EndpointSet): EndpointSet {
  ignoreRejection(next);
  if (!Array.isArray(next?.entries)) throw new TypeError(`apply returned no endpoint set but ${String(next)}`);
  if (next !== before && !next.entries.every(isEntry)) {
    throw new TypeError('apply returned a set with an entry that has no endpoint');
  }
  return next;
}

/**
 * Whether `entry`, from a stage, has a real endpoint, on which the pool and the following stages rely. Weights are checked where they are
 * used.
 */
function isEntry(entry: EndpointEntry | null | undefined): boolean {
  return isEndpoint(entry?.endpoint);
}
