// @ts-check
/** What both HTTP clients share: the request, and how its response is read. */

const PATH = '/v1/orders/42';

/** @typedef {(path: string, init: { signal: AbortSignal, headers: Record<string, string> }) => Promise<Response>} Send */

/** @param {Send} send @returns {import('./client.js').Client['ask']} */
export const askOver =
  (send) =>
  async ({ lane, deadlineMs }) => {
    try {
      const response = await send(PATH, { signal: AbortSignal.timeout(deadlineMs), headers: { 'x-lane': lane } });
      const { pod } = /** @type {{ pod: string }} */ (await response.json());
      return response.ok ? { pod } : { pod, error: `status ${response.status}` };
    } catch (error) {
      return { error: kindOf(error, deadlineMs) };
    }
  };

/** A short name for what went wrong. @param {any} error @param {number} deadlineMs @returns {string} */
function kindOf(error, deadlineMs) {
  if (error?.name === 'TimeoutError') return `no answer in ${deadlineMs / 1_000} s`;
  return error?.cause?.code ?? error?.code ?? error?.cause?.message ?? String(error?.message ?? error);
}
