import { optionError } from '../../runtime/check.js';

/**
 * Which pods are asked for load reports: with true those pods that announce that they report, with 'always' every pod, with false none.
 */
export type AskForReports = boolean | 'always';

/** Checks the option `askForReports` and returns it, or true when it is undefined. Throws EVENKEEL_OPTION for an invalid value. */
export function checkAskForReports(name: string, value: unknown): AskForReports {
  if (value === undefined) return true;
  if (typeof value !== 'boolean' && value !== 'always') throw optionError(name, "true, false or 'always'", value);
  return value;
}

/** How many more requests ask a pod for load reports after the pod last announced or sent one. */
const ASKING = 64;

/** Decides whether a request asks its pod for a load report. There is one such object per pod and balancer. */
export class ReportAsking {
  #left = 0;

  /** Decides whether the next request to the pod asks for a load report, and counts that request. */
  next(rule: AskForReports): boolean {
    if (rule !== true) return rule === 'always';
    if (this.#left === 0) return false;
    this.#left--;
    return true;
  }

  /** The pod announced that it reports its load to requests that ask for it. */
  announced(): void {
    this.#left = ASKING;
  }

  /** The pod sent a load report. If no request had asked for it, the pod sends reports to everybody, and is not asked. */
  reported(): void {
    if (this.#left > 0) this.#left = ASKING;
  }

  /** No connection to the pod is open any longer. Another pod may take over this address, so what the pod announced is forgotten. */
  forget(): void {
    this.#left = 0;
  }
}
