import { experimental, Metadata, status } from '@grpc/grpc-js';
import type { EvenkeelError } from '../../index.js';

/** Why calls fail. The code is in their message, and in their metadata as `evenkeel-code`. */
export class Refusal {
  readonly error: EvenkeelError;
  /** Whether calls that wait for ready fail too. */
  readonly final: boolean;
  readonly code: status;
  readonly details: string;

  constructor(error: EvenkeelError, code: status = status.UNAVAILABLE, final = false) {
    this.error = error;
    this.final = final;
    this.code = code;
    this.details = `${error.message} (${error.code})`;
  }

  /** The result for one call. Its metadata is a copy, because grpc-js writes to it. */
  result(): experimental.PickResult {
    const { TRANSIENT_FAILURE, DROP } = experimental.PickResultType;
    const metadata = new Metadata();
    metadata.set('evenkeel-code', this.error.code);
    return {
      pickResultType: this.final ? DROP : TRANSIENT_FAILURE,
      subchannel: null,
      status: { code: this.code, details: this.details, metadata },
      onCallStarted: null,
      onCallEnded: null,
    };
  }
}
