import { asError } from '../../../errors.js';
import type { ApiReply } from './api-client.js';
import { ApiFailure, statusFailure } from './api-failure.js';
import { ByteBuffer } from './byte-buffer.js';
import { parseStatus } from './status.js';

const MAX_ERROR_BYTES = 64 * 1024;

/** How much more of a response from the API server may be read. */
export interface ReadBudget {
  bytes: number;
}

/** Reads a response of the API server whose status is not 200, and converts it to a failure. */
export async function readFailure(reply: ApiReply): Promise<ApiFailure> {
  let status: unknown;
  try {
    status = await readJson(reply, { bytes: MAX_ERROR_BYTES }, 'error');
  } catch {
    // If the body of the response is not JSON or is cut short, the status code has to be enough.
  }
  return statusFailure(reply.status, parseStatus(status), reply.retryAfterMs);
}

/** Reads a response's body within a budget, and deducts what was read. Rejects with an ApiFailure if the body does not fit. */
export async function readJson(reply: ApiReply, budget: ReadBudget, what: string): Promise<unknown> {
  const body = new ByteBuffer();
  await reply.read((chunk) => {
    budget.bytes -= chunk.length;
    if (budget.bytes < 0) throw new ApiFailure('protocol', 'size', `the ${what} is longer than we read`);
    body.push(chunk);
  });
  try {
    return JSON.parse(body.take());
  } catch (cause) {
    throw new ApiFailure('protocol', what, `the ${what} is not JSON: ${asError(cause).message.slice(0, 80)}`, {
      cause,
    });
  }
}
