import {
  type ChannelInterface,
  Client,
  credentials,
  type experimental,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js';

/** A connection for our own calls. */
export interface Askable {
  readonly subchannel: experimental.SubchannelInterface;
  /** Created for the first call, kept for the next. */
  ownChannel?: ChannelInterface | undefined;
}

/** A unary method and its serialization. */
export interface OwnMethod<Request, Answer> {
  readonly method: string;
  readonly encode: (request: Request) => Buffer;
  readonly decode: (message: Buffer) => Answer;
}

/** The result. */
export type OwnAnswer<Answer> =
  | { readonly error: ServiceError; readonly answer?: undefined }
  | { readonly error?: undefined; readonly answer: Answer };

/**
 * A call of our own over this connection: it is not balanced and contains nothing of any caller's. Rejects with the signal's reason; any
 * answer of the server, including errors, is the result.
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
    // The address is unused: the channel exists already, with its credentials.
    const client = new Client('unused', credentials.createInsecure(), { channelOverride });
    const onAbort = (): void => {
      reject(signal.reason);
      call.cancel();
    };
    const done = (error: ServiceError | null, answer?: Answer): void => {
      signal.removeEventListener('abort', onAbort);
      resolve(error === null ? { answer: answer as Answer } : { error });
    };
    // No grpc-js deadline: on such a channel its timer would outlive the call. The signal ends it.
    const call = client.makeUnaryRequest(method, encode, decode, request, new Metadata(), {}, done);
    signal.addEventListener('abort', onAbort, { once: true });
  });
}
