import { checkNoOptions } from '../runtime/check.js';
import { described } from '../runtime/described.js';
import { noCell } from './cells.js';
import type { Load } from './load.js';
import { type LoadRule, RuledLoad } from './load-rule.js';

/** Calls in flight, as this process counts them. This load needs no tuning and reacts at once. */
export const inFlight = (...none: []): (() => Load) => {
  checkNoOptions('inFlight', none);
  return described(() => new RuledLoad(inFlightRule, noCell), 'inFlight');
};

/** Subchannels count calls in flight themselves and use this rule directly. */
export const inFlightRule: LoadRule = {
  decays: false,
  start: undefined,
  end() {},
  // The value includes the next call, so that idle endpoints do not tie at 0 and weights still matter.
  value: (_numbers, _at, calls) => calls + 1,
};
