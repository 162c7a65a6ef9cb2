import type { IncomingMessage, ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import type { RecordedRequest } from './api-server-record.js';
import type { StatusObject } from './api-server-status.js';

/** Lists above this size, in bytes, are compressed for clients that accept that. */
const GZIP_BYTES = 128 * 1024;

/** One response of the API server, which keeps the record of its request up to date. */
export class Reply {
  readonly response: ServerResponse;
  readonly record: RecordedRequest;
  truncateAt: number | undefined;
  readonly #request: IncomingMessage;

  constructor(request: IncomingMessage, response: ServerResponse, record: RecordedRequest) {
    this.#request = request;
    this.response = response;
    this.record = record;
  }

  /** Sends only the headers of the response. */
  open(): void {
    this.record.status = 200;
    this.response.writeHead(200, { 'content-type': 'application/json' });
    this.response.flushHeaders();
  }

  text(status: number, body: string): void {
    this.send(status, 'text/plain; charset=utf-8', body);
  }

  status(status: StatusObject, retryAfterSeconds?: number): void {
    const headers = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) };
    this.send(status.code, 'application/json', `${JSON.stringify(status)}\n`, headers);
  }

  json(status: number, body: string, compressible = false): void {
    if (
      compressible &&
      body.length > GZIP_BYTES &&
      /\bgzip\b/.test(String(this.#request.headers['accept-encoding'] ?? ''))
    ) {
      this.send(status, 'application/json', gzipSync(body, { level: 1 }), { 'content-encoding': 'gzip' });
    } else this.send(status, 'application/json', body);
  }

  send(status: number, type: string, body: string | Buffer, headers: Record<string, string> = {}): void {
    if (this.response.destroyed || this.response.headersSent) return;
    this.record.status = status;
    const bytes = Buffer.from(body as string);
    this.response.writeHead(status, { 'content-type': type, 'content-length': bytes.length, ...headers });
    if (this.truncateAt === undefined || this.truncateAt >= bytes.length) {
      this.response.end(bytes);
      return;
    }
    // The connection ends only once these bytes were written, so that the client gets them.
    this.response.write(bytes.subarray(0, this.truncateAt), () => this.response.socket?.destroySoon());
  }
}
