import { checkKeys, checkNumber, optionError } from '../runtime/check.js';

/** How often endpoints are asked how busy they are, beside what their answers say. */
export interface ProbeOptions {
  /** At most so many endpoints are asked per call, 0 to 3; fractions are an average. @defaultValue 3 */
  readonly perCall?: number | undefined;
  /** After how long an answer is no longer waited for, in ms. @defaultValue 500 */
  readonly timeoutMs?: number | undefined;
}

/** Defaults of the numeric options; see `docs/reference/options.md`. */
export const probeDefaults: { readonly perCall: number; readonly timeoutMs: number } = Object.freeze({
  perCall: 3,
  timeoutMs: 500,
});

/** The same, complete and checked. */
export interface ResolvedProbeOptions {
  readonly perCall: number;
  readonly timeoutMs: number;
}

/** Undefined: nothing is asked. Throws EVENKEEL_OPTION. */
export function resolveProbeOptions(probes: 'auto' | 'off' | ProbeOptions = 'auto'): ResolvedProbeOptions | undefined {
  if (probes === 'off') return undefined;
  if (probes === 'auto') return probeDefaults;
  if (typeof probes !== 'object' || probes === null) throw optionError('probes', "'auto', 'off' or an object", probes);
  checkKeys('probes', probes, ['perCall', 'timeoutMs']);
  const perCall = checkNumber('probes.perCall', probes.perCall, probeDefaults.perCall, { min: 0, max: 3 });
  const timeoutMs = checkNumber('probes.timeoutMs', probes.timeoutMs, probeDefaults.timeoutMs, { min: 1, max: 60_000 });
  return perCall === 0 ? undefined : { perCall, timeoutMs };
}
