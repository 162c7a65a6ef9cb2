import { conditions } from './conditions.js';
import { outlierEjection } from './outlier-ejection.js';
import { panic } from './panic.js';
import type { StageFactory } from './stage.js';

/** The recommended stages in their order: what Kubernetes says first, our own verdicts after it, panic last. */
export function standardStages(): readonly StageFactory[] {
  return [conditions(), outlierEjection(), panic()];
}
