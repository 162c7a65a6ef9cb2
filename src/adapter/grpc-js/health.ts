import {
  type ChannelInterface,
  Client,
  credentials,
  type experimental,
  Metadata,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import { readVarintField } from './wire.js';

const CHECK = '/grpc.health.v1.Health/Check';

/** `HealthCheckResponse.ServingStatus` of grpc.health.v1. */
const SERVING_STATUS = ['UNKNOWN', 'SERVING', 'NOT_SERVING', 'SERVICE_UNKNOWN'];
const SERVING = 1;

/** A connection for health checks. */
export interface Checkable {
  readonly subchannel: experimental.SubchannelInterface;
  /** Created for the first check, kept for the next. */
  healthChannel?: ChannelInterface | undefined;
}

/**
 * Checks `service` by grpc.health.v1, over this very connection. Resolves if it serves, or if the server does not have the health
 * service; otherwise rejects with its answer, or with the signal's reason. The two messages are encoded by hand: one string in, one
 * number out.
 */
export function checkHealth(connection: Checkable, service: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  connection.healthChannel ??= connection.subchannel.getChannel();
  const channelOverride = connection.healthChannel;
  // The address is not used: the channel already exists, with its credentials.
  const client = new Client('unused', credentials.createInsecure(), { channelOverride });
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      reject(signal.reason);
      call.cancel();
    };
    const done = (error: ServiceError | null, answer?: number): void => {
      signal.removeEventListener('abort', onAbort);
      if (error === null && answer === SERVING) resolve();
      else if (error === null)
        reject(new Error(`its health service answered ${SERVING_STATUS[answer ?? 0] ?? answer}`));
      else if (error.code === status.UNIMPLEMENTED) resolve();
      else if (error.code === status.NOT_FOUND) reject(new Error(`its health service knows no service "${service}"`));
      else reject(new Error(`its health service failed: ${error.message}`, { cause: error }));
    };
    // No deadline of grpc-js, whose timer outlives the call on such a channel. The signal ends it.
    const call = client.makeUnaryRequest(CHECK, encodeRequest, decodeResponse, service, new Metadata(), {}, done);
    signal.addEventListener('abort', onAbort, { once: true });
  });
}

/** `HealthCheckRequest { string service = 1 }`. */
export function encodeRequest(service: string): Buffer {
  const text = Buffer.from(service, 'utf8');
  if (text.length === 0) return text;
  const length: number[] = [];
  let rest = text.length;
  for (; rest > 0x7f; rest >>>= 7) length.push((rest & 0x7f) | 0x80);
  return Buffer.concat([Buffer.from([0x0a, ...length, rest]), text]);
}

/** `HealthCheckResponse { ServingStatus status = 1 }`; a status left out is 0, UNKNOWN. */
export function decodeResponse(message: Buffer): number {
  return readVarintField(message, 1) ?? 0;
}
