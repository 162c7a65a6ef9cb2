import { notBegunHeader } from '../propagation/not-begun.js';
import { connectionMarkOf } from './address.js';
import type { HttpRequest, HttpResponse } from './http-requests.js';

/** Why a request is refused, and when its caller may try again. */
export interface HttpRefusal {
  /** The reason in the words that the caller sees. */
  readonly text: string;
  /** When the caller may try again, in ms; undefined = not at all, because its deadline has passed. */
  readonly retryAfterMs: number | undefined;
}

/** Responds 503 and says that the request was not begun. */
export function answerNotBegun(
  request: HttpRequest,
  response: HttpResponse,
  { text, retryAfterMs }: HttpRefusal,
): void {
  if (response.headersSent) return;
  const headers: Record<string, string> = {
    'content-type': 'text/plain',
    'content-length': String(Buffer.byteLength(text)),
  };
  if (retryAfterMs !== undefined) headers['retry-after'] = String(Math.ceil(retryAfterMs / 1_000));
  const mark = connectionMarkOf(request.socket);
  if (mark !== undefined) headers[notBegunHeader] = mark;
  // The types of both HTTP versions' responses differ, but both accept these arguments.
  (response as { writeHead(status: number, headers: object): unknown }).writeHead(503, headers);
  response.end(text);
}
