import { checkNoOptions } from '../runtime/check.js';
import { noCell } from './cells.js';
import type { Load } from './load.js';
import { type LoadRule, RuledLoad } from './load-rule.js';

/** The number of calls in flight, as this process counts them. This load needs no tuning and reacts at once. */
export const inFlight = (...none: []): (() => Load) => {
  checkNoOptions('inFlight', none);
  return () => new RuledLoad(inFlightRule, noCell);
};

/** The rule for calls in flight, which subchannels count themselves. */
export const inFlightRule: LoadRule = {
  decays: false,
  start: undefined,
  end() {},
  // The value includes the next call. Otherwise all idle endpoints would cost 0, and weights would not matter among them.
  value: (_numbers, _at, calls) => calls + 1,
};
