import type { MethodDefinition } from '@grpc/grpc-js';

/** Serializes nothing: messages are bytes already. */
export const asIs = (bytes: Buffer): Buffer => bytes;

/** A gRPC method whose messages are plain bytes. */
export const bytesMethod = (path: string, responseStream = false): MethodDefinition<Buffer, Buffer> => ({
  path,
  requestStream: false,
  responseStream,
  requestSerialize: asIs,
  requestDeserialize: asIs,
  responseSerialize: asIs,
  responseDeserialize: asIs,
});
