import type { Subchannel } from '../pool/subchannel.js';

/** Which endpoint a call may go to. */
export interface PickOptions<C> {
  /** For hash pickers: calls with the same key go to the same endpoint. @defaultValue none */
  readonly key?: string | undefined;
  /** Subchannels this call was tried on: one of them is returned only if no other can take the call. @defaultValue none */
  readonly avoid?: ReadonlySet<Subchannel<C>> | undefined;
}

/** Options of `acquire`: which endpoint, and how long to wait for it. */
export interface AcquireOptions<C> extends PickOptions<C> {
  /** Stops waiting; the promise then rejects with the signal's reason. @defaultValue none */
  readonly signal?: AbortSignal | undefined;
  /** How long to wait, in ms. @defaultValue the balancer's `waitTimeoutMs` */
  readonly timeoutMs?: number | undefined;
}

/** Names of `AcquireOptions`. */
export const acquireOptionNames: readonly (keyof AcquireOptions<unknown>)[] = ['key', 'avoid', 'signal', 'timeoutMs'];
