import { status } from '@grpc/grpc-js';
import { type Askable, askOver } from './own-call.js';
import { readVarintField } from './wire.js';

const CHECK = '/grpc.health.v1.Health/Check';

/** `HealthCheckResponse.ServingStatus` of grpc.health.v1. */
const SERVING_STATUS = ['UNKNOWN', 'SERVING', 'NOT_SERVING', 'SERVICE_UNKNOWN'];
const SERVING = 1;

/**
 * Checks `service` by grpc.health.v1, over this very connection. Resolves if it serves, or if the server does not have the health
 * service; otherwise rejects with its answer, or with the signal's reason. The two messages are encoded by hand: one string in, one
 * number out.
 */
export async function checkHealth(connection: Askable, service: string, signal: AbortSignal): Promise<void> {
  const question = { method: CHECK, encode: encodeRequest, decode: decodeResponse };
  const { error, answer } = await askOver(connection, question, service, signal);
  if (error === undefined) {
    if (answer === SERVING) return;
    throw new Error(`its health service answered ${SERVING_STATUS[answer] ?? answer}`);
  }
  if (error.code === status.UNIMPLEMENTED) return;
  if (error.code === status.NOT_FOUND) throw new Error(`its health service knows no service "${service}"`);
  throw new Error(`its health service failed: ${error.message}`, { cause: error });
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
