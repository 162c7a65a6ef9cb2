import { type Endpoint, isEndpoint } from '../endpoint/endpoint.js';
import type { EndpointEntry, EndpointSet } from '../endpoint/endpoint-set.js';
import type { Warnings } from '../observe/warnings.js';
import { ignoreRejection } from '../runtime/ignore-rejection.js';
import type { Stage, StageContext, StageFactory, Tracker } from '../stage/stage.js';
import { makeStage } from './plugged-in.js';

/** Runs the stages of one balancer in their order. A stage that throws is skipped and reported, so that it does not fail all calls. */
export class StageChain {
  readonly #stages: Stage[] = [];
  readonly #warnings: Warnings;

  /** Throws what a stage's factory throws, after closing the stages that were created before. */
  constructor(factories: readonly StageFactory[], context: StageContext, warnings: Warnings) {
    this.#warnings = warnings;
    try {
      for (const [index, factory] of factories.entries()) this.#stages.push(makeStage(factory, index, context));
    } catch (error) {
      this.close();
      throw error;
    }
  }

  apply(set: EndpointSet): EndpointSet {
    let result = set;
    this.#stages.forEach((stage, index) => {
      try {
        const next = stage.apply(result);
        ignoreRejection(next);
        if (!Array.isArray(next?.entries)) throw new TypeError(`apply returned no endpoint set but ${String(next)}`);
        if (next !== result && !next.entries.every(isEntry)) {
          throw new TypeError('apply returned a set with an entry that has no endpoint');
        }
        result = next;
      } catch (error) {
        this.#warnings.warn(`stage ${index + 1} of ${this.#stages.length} threw and was skipped`, error);
      }
    });
    return result;
  }

  /** Asks each stage for the tracker with which it follows the calls of a new endpoint, and returns those it gets. */
  track(endpoint: Endpoint): readonly Tracker[] {
    const trackers: Tracker[] = [];
    for (const stage of this.#stages) {
      try {
        const tracker = stage.track?.(endpoint);
        if (typeof tracker === 'object' && tracker !== null) trackers.push(tracker);
      } catch (error) {
        this.#warnings.warn('a stage threw in track()', error);
      }
    }
    return trackers;
  }

  close(): void {
    for (const stage of this.#stages) {
      try {
        stage.close?.();
      } catch (error) {
        this.#warnings.warn('a stage threw when it was closed', error);
      }
    }
  }
}

/**
 * Whether `entry`, from a stage, has a real endpoint, on which the pool and the following stages rely. Weights are checked where they are
 * used.
 */
function isEntry(entry: EndpointEntry | null | undefined): boolean {
  return isEndpoint(entry?.endpoint);
}
