/** Drives one kind of client: a fixed number of callers, each sending its next request when the last one is answered. */
import { quantile } from './statistics.mjs';

/**
 * @param {() => Promise<unknown>} call one request, to the end of its body
 * @param {{ requests: number, concurrency: number }} size
 * @returns {Promise<import('./rounds.mjs').Sample>}
 */
export async function closedLoop(call, { requests, concurrency }) {
  const latencies = new Array(requests);
  let sent = 0;
  const caller = async () => {
    while (sent < requests) {
      const index = sent++;
      const begun = performance.now();
      await call();
      latencies[index] = performance.now() - begun;
    }
  };
  const cpu = process.cpuUsage();
  const begun = performance.now();
  await Promise.all(Array.from({ length: concurrency }, caller));
  const seconds = (performance.now() - begun) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return {
    perSecond: requests / seconds,
    cpuUs: (user + system) / requests,
    p50: quantile(latencies, 0.5),
    p99: quantile(latencies, 0.99),
    p999: quantile(latencies, 0.999),
  };
}
