/**
 * Sends at a steady rate, no matter how requests are answered: a client that waits for slow answers before it asks again would
 * hide most of them.
 */
import { quantile } from './statistics.mjs';

/** What has no answer so long after the last request counts as failed, in ms. */
const PATIENCE_MS = 5_000;

/**
 * @typedef {object} Tally
 * @property {number} sent
 * @property {number} failed
 * @property {number} p50 of those that were answered, in ms
 * @property {number} p90
 * @property {number} p99
 * @property {number} p999
 * @property {string | undefined} reason what most of the failures said
 * @property {number} lateMs how late requests were sent, in the middle: more than a few ms tells of a machine that is too busy
 */

/**
 * @param {() => Promise<unknown>} call one request, to the end of its body
 * @param {{ perSecond: number, during: Promise<unknown>, patienceMs?: number }} load `during`: it sends until this has settled
 * @returns {Promise<Tally>}
 */
export async function openLoop(call, { perSecond, during, patienceMs = PATIENCE_MS }) {
  /** @type {number[]} */
  const late = [];
  /** @type {number[]} */
  const latencies = [];
  /** @type {Map<string, number>} */
  const reasons = new Map();
  let failed = 0;
  let open = true;
  const settled = () => {
    open = false;
  };
  during.then(settled, settled);
  const send = async (/** @type {number} */ dueMs) => {
    const begun = performance.now();
    late.push(begun - dueMs);
    try {
      await call();
      latencies.push(performance.now() - begun);
    } catch (error) {
      failed += 1;
      const reason = reasonOf(error);
      reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
    }
  };
  /** @type {Set<Promise<void>>} */
  const running = new Set();
  const begun = performance.now();
  let sent = 0;
  while (open) {
    for (const due = ((performance.now() - begun) * perSecond) / 1000; sent < due; sent++) {
      const request = send(begun + (sent * 1000) / perSecond).finally(() => running.delete(request));
      running.add(request);
    }
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await during;
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  await Promise.race([
    Promise.all(running),
    new Promise((resolve) => {
      timer = setTimeout(resolve, patienceMs);
    }),
  ]);
  clearTimeout(timer);
  const [most] = [...reasons].sort(([, a], [, b]) => b - a);
  const of = (/** @type {number} */ share) => (latencies.length === 0 ? Number.NaN : quantile(latencies, share));
  const lateMs = late.length === 0 ? 0 : Math.max(0, quantile(late, 0.5));
  const [p50, p90, p99, p999] = [of(0.5), of(0.9), of(0.99), of(0.999)];
  return { sent, failed: failed + running.size, p50, p90, p99, p999, reason: most?.[0], lateMs };
}

/** @param {unknown} error */
function reasonOf(error) {
  const { code, message, cause } = /** @type {any} */ (error);
  return String(code ?? cause?.code ?? message);
}
