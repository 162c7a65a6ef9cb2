import { optionError } from '../../runtime/check.js';

/** Which pods are asked for load reports: those that say that they report, every pod, or none. */
export type AskForReports = boolean | 'always';

/** Returns `value`, or true when it is undefined. Throws EVENKEEL_OPTION for an invalid value. */
export function checkAskForReports(name: string, value: unknown): AskForReports {
  if (value === undefined) return true;
  if (typeof value !== 'boolean' && value !== 'always') throw optionError(name, "true, false or 'always'", value);
  return value;
}

/** How many requests ask a pod for reports after it has last said that it reports, or has last reported. */
const ASKING = 64;

/** Decides whether a request asks its pod for a load report. One per connection of the balancer to a pod. */
export class ReportAsking {
  #left = 0;
  /** Whether the pod also said that it may refuse requests that others could take. */
  mayRefuse = false;

  /** Whether the next request to the pod asks for a load report. */
  next(rule: AskForReports): boolean {
    if (rule !== true) return rule === 'always';
    if (this.#left === 0) return false;
    this.#left--;
    return true;
  }

  /** The pod said that it reports its load to those who ask. */
  announced(mayRefuse = false): void {
    this.#left = ASKING;
    this.mayRefuse = mayRefuse;
  }

  /** The pod sent a load report. If no request had asked for one, the pod is a server that sends reports anyway, and need not be asked. */
  reported(): void {
    if (this.#left > 0) this.#left = ASKING;
  }

  /** No connection to the pod is open any longer: the next pod at this address may be another one, so what is known is forgotten. */
  forget(): void {
    this.#left = 0;
    this.mayRefuse = false;
  }
}
