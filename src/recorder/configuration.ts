import type { RecordedBalancer } from '../call/recording.js';
import { type Description, descriptionOf } from '../runtime/described.js';
import type { Configuration, Made } from './format.js';

/** Describes a balancer's configuration for a recording, as far as its parts are evenkeel's own. */
export function configurationOf(balancer: RecordedBalancer): Configuration {
  const { picker, load, stages } = balancer;
  const madePicker = madeBy(picker);
  const madeLoad = madeBy(load);
  return {
    ...(madePicker !== undefined && { picker: madePicker }),
    ...(madeLoad !== undefined && { load: madeLoad }),
    stages: stages.map((stage) => descriptionOf(stage)?.name ?? null),
  };
}

/** Describes how a picker or a load was made; undefined if it cannot be made again, because it contains something of the application's. */
function madeBy(factory: unknown): Made | undefined {
  const description = descriptionOf(factory);
  return description === undefined ? undefined : madeOf(description);
}

function madeOf({ name, options }: Description): Made | undefined {
  const plain: Record<string, unknown> = {};
  for (const [option, value] of Object.entries(options)) {
    if (value === undefined) continue;
    if (typeof value === 'function') {
      const made = madeBy(value);
      if (made === undefined) return undefined;
      plain[option] = made;
    } else plain[option] = value === Number.POSITIVE_INFINITY ? 'Infinity' : value;
  }
  return { name, options: plain };
}
