import {
  type ChannelInterface,
  Client,
  credentials,
  type experimental,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js';

/** A connection that can be asked over. */
export interface Askable {
  readonly subchannel: experimental.SubchannelInterface;
  /** Made for the first question, kept for the next. */
  ownChannel?: ChannelInterface | undefined;
}

/** A unary method, and how its messages are written and read. */
export interface OwnMethod<Request, Answer> {
  readonly method: string;
  readonly encode: (request: Request) => Buffer;
  readonly decode: (message: Buffer) => Answer;
}

/** How it was answered. */
export type OwnAnswer<Answer> =
  | { readonly error: ServiceError; readonly answer?: undefined }
  | { readonly error?: undefined; readonly answer: Answer };

/**
 * A call of our own over this very connection: nobody balances it, and nothing of a caller's is in it. Rejects with the signal's
 * reason; what the server answered, errors included, is the result.
 */
export function askOver<Request, Answer>(
  connection: Askable,
  { method, encode, decode }: OwnMethod<Request, Answer>,
  request: Request,
  signal: AbortSignal,
): Promise<OwnAnswer<Answer>> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    connection.ownChannel ??= connection.subchannel.getChannel();
    const channelOverride = connection.ownChannel;
    // The address is not used: the channel is there already, with its credentials.
    const client = new Client('unused', credentials.createInsecure(), { channelOverride });
    const onAbort = (): void => {
      reject(signal.reason);
      call.cancel();
    };
    const done = (error: ServiceError | null, answer?: Answer): void => {
      signal.removeEventListener('abort', onAbort);
      resolve(error === null ? { answer: answer as Answer } : { error });
    };
    // No deadline of grpc-js: on such a channel its timer outlives the call. The signal ends it.
    const call = client.makeUnaryRequest(method, encode, decode, request, new Metadata(), {}, done);
    signal.addEventListener('abort', onAbort, { once: true });
  });
}
