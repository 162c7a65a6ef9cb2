import { checkNoOptions } from '../runtime/check.js';
import { conditions } from './conditions.js';
import { outlierEjection } from './outlier-ejection.js';
import { panic } from './panic.js';
import { pushback } from './pushback.js';
import type { StageFactory } from './stage.js';

/**
 * The recommended stages in their order: Kubernetes conditions, outlier ejection, pauses that endpoints request, and panic last.
 */
export function standardStages(...none: []): readonly StageFactory[] {
  checkNoOptions('standardStages', none);
  return [conditions(), outlierEjection(), pushback(), panic()];
}
