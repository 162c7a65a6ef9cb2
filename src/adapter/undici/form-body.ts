import * as undici from 'undici';
import type { OwnOptions } from './own-options.js';

/**
 * Encodes a form that `fetch` hands over as it was passed, which it does where a mock may answer. Its Content-Type is that
 * of an encoding nobody has: undici would encode the form anew, with another boundary, and no pod could read it.
 */
export function encodeForm(own: OwnOptions): void {
  const body: unknown = own.body;
  if (!(body instanceof undici.FormData || body instanceof FormData)) return;
  const headers = own.headers as Record<string, string> | null | undefined;
  if (headers?.['content-type'] === undefined) return;
  const encoded = body instanceof undici.FormData ? new undici.Response(body) : new Response(body);
  own.body = encoded.body as never;
  headers['content-type'] = encoded.headers.get('content-type') as string;
}
