import type { Subchannel } from '../pool/subchannel.js';

/** Which endpoint a call may go to. */
export interface PickOptions<C> {
  /** For hash pickers: calls with one key go to one endpoint. */
  readonly key?: string | undefined;
  /** Subchannels this call was tried on before. */
  readonly avoid?: ReadonlySet<Subchannel<C>> | undefined;
}

export interface AcquireOptions<C> extends PickOptions<C> {
  /** Ends the waiting; the promise then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** How long to wait, in ms. @defaultValue the balancer's `waitTimeoutMs` */
  readonly timeoutMs?: number | undefined;
}
