import { experimental, Metadata, status } from '@grpc/grpc-js';
import type { EvenkeelError } from '../../index.js';

/** Why a call is turned away, in the form calls get it. The code stands in the message and in the metadata, as `evenkeel-code`. */
export class Refusal {
  readonly error: EvenkeelError;
  readonly result: experimental.PickResult;

  /** @param final Calls that wait for ready are turned away, too. */
  constructor(error: EvenkeelError, code: status = status.UNAVAILABLE, final = false) {
    this.error = error;
    const metadata = new Metadata();
    metadata.set('evenkeel-code', error.code);
    this.result = {
      pickResultType: final ? experimental.PickResultType.DROP : experimental.PickResultType.TRANSIENT_FAILURE,
      subchannel: null,
      status: { code, details: `${error.message} (${error.code})`, metadata },
      onCallStarted: null,
      onCallEnded: null,
    };
  }

  get final(): boolean {
    return this.result.pickResultType === experimental.PickResultType.DROP;
  }
}
