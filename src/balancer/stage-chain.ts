import type { Endpoint } from '../endpoint/endpoint.js';
import type { EndpointSet } from '../endpoint/endpoint-set.js';
import type { Warnings } from '../observe/warnings.js';
import { descriptionOf } from '../runtime/described.js';
import type { Stage, StageContext, StageFactory, Tracker } from '../stage/stage.js';
import { guardStage } from './guard.js';
import { makeStage } from './plugged-in.js';

/** Runs the stages of one balancer in their order. */
export class StageChain {
  readonly #stages: Required<Stage>[] = [];

  /** Throws what a stage's factory throws, after closing the stages that were created before. */
  constructor(factories: readonly StageFactory[], context: StageContext, warnings: Warnings) {
    try {
      for (const [index, factory] of factories.entries()) {
        const name = `stage ${index + 1} of ${factories.length}`;
        const isOurs = descriptionOf(factory) !== undefined;
        this.#stages.push(guardStage(makeStage(factory, index, context), name, isOurs, warnings));
      }
    } catch (error) {
      this.close();
      throw error;
    }
  }

  apply(set: EndpointSet): EndpointSet {
    let result = set;
    for (const stage of this.#stages) result = stage.apply(result);
    return result;
  }

  /** The trackers with which the stages follow the calls of a new endpoint. */
  track(endpoint: Endpoint): readonly Tracker[] {
    return this.#stages.map((stage) => stage.track(endpoint));
  }

  close(): void {
    for (const stage of this.#stages) stage.close();
  }
}
