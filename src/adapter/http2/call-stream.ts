import type { ClientHttp2Stream } from 'node:http2';

/** What the caller does with a stream, as far as the stream's call has to react. */
export interface StreamOwner {
  /** The caller has closed or destroyed the stream. */
  dropped(): void;
  /** The caller can take more of the response. */
  wanted(): void;
}

/**
 * The stream that a caller gets for a request, as its call sees it. It may exist before a pod was picked. When a request moves to another
 * pod, another stream of Node takes over beneath it.
 */
export interface CallStream {
  /** The RST_STREAM code with which the stream was closed, as in Node's streams. */
  readonly rstCode: number;
  readonly destroyed: boolean;
  readonly writableEnded: boolean;
  /** Whether all that was written of the request body is kept, so that it can be sent to another pod. */
  readonly isRepeatable: boolean;
  /** Whether the caller closed or destroyed the stream. */
  readonly isDropped: boolean;
  /** The request was sent on `native`, a stream of Node's: it gets the request body written so far, and what is written later. */
  attach(native: ClientHttp2Stream): void;
  /** The attempt on Node's stream is over. Another attempt may follow. */
  detach(): void;
  /** The response has begun, so the request body is not needed for another attempt. */
  answered(): void;
  /** A part of the response body, or null at its end. Returns false if the caller has enough for now. */
  push(chunk: Buffer | null): boolean;
  /** The response is complete, and Node's stream has ended. */
  finished(rstCode: number): void;
  /** The response was not complete when Node's stream ended. */
  failed(rstCode: number, error: Error | undefined): void;
  end(): unknown;
  destroy(error?: Error): unknown;
  emit(event: string, ...values: unknown[]): boolean;
  /** Calls `listener` once the caller has read the response. */
  once(event: 'end', listener: () => void): unknown;
}
