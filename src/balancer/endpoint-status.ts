import type { SubchannelState } from '../observe/observer.js';

/**
 * Whether an endpoint gets calls. `ready`: it does. `ejected`: it is connected, but does not because its calls or probes failed. `standby`:
 * it is connected, but a stage gives it no share (for example because it is in another zone). The other values are states of its
 * connection.
 */
export type EndpointStatus = SubchannelState | 'ejected' | 'standby';

/**
 * An endpoint counts as avoided if a call on it costs more than this many times a call on the cheapest: it only gets what the others cannot
 * take.
 */
const AVOIDED_FROM = 4;
/** An endpoint counts as slow if it gets less than this share of its calls. */
const SLOW_BELOW = 0.5;

interface StatusFacts {
  readonly state: SubchannelState;
  readonly weight: number;
  readonly suspect: boolean;
  readonly ejectedBecause: string | undefined;
  readonly lastError: string | undefined;
  readonly inFlight: number;
  /** How many times as much one more call costs here as on the cheapest endpoint; undefined if unknown. */
  readonly timesCheapest: number | undefined;
  /** Which share of its calls the endpoint gets, 0 to 1; below 1 if it is slower than the others. */
  readonly share: number;
}

/** Works out an endpoint's status from its state, its weight and what the stages decided about it. */
export function statusOf({ state, weight, suspect, ejectedBecause }: StatusFacts, panicking: boolean): EndpointStatus {
  if (state !== 'ready' && state !== 'idle') return state;
  if (!panicking && (suspect || ejectedBecause !== undefined)) return 'ejected';
  return weight > 0 ? state : 'standby';
}

/** Says in words why an endpoint gets no calls, or fewer than others; undefined if it gets its share. */
export function whyFewer(facts: StatusFacts, panicking: boolean): string | undefined {
  const { ejectedBecause, lastError, inFlight, timesCheapest, share } = facts;
  switch (statusOf(facts, panicking)) {
    case 'ejected':
      return ejectedBecause ?? lastError ?? 'its calls or probes fail';
    case 'standby':
      return 'a stage gives it no calls, such as zone() while the near endpoints suffice';
    case 'backoff':
      return lastError ?? 'no connection; tried again soon';
    case 'connecting':
      return lastError ?? 'its first connection is being opened';
    case 'draining':
      return `it leaves; ${inFlight} of its calls still run`;
    case 'closed':
      return 'closed';
    default:
      if (ejectedBecause !== undefined) return `would be ejected (${ejectedBecause}), but so would most others`;
      if (share < SLOW_BELOW)
        return `it is slower than the others, and gets ${Math.round(100 * share)} % of its share of the calls`;
      if (timesCheapest === undefined || timesCheapest < AVOIDED_FROM) return undefined;
      return `a call costs ${rounded(timesCheapest)} times as much as at the cheapest: it is slower, fuller, or fails`;
  }
}

const rounded = (times: number): string => (times < 10 ? times.toFixed(1) : String(Math.round(times)));
