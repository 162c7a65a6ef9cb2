/**
 * A client process of the balance experiment. Given `{ ports, load, reports, perSecond, warmUpMs, lengthMs }`, it sends requests at
 * random times (an open loop) through its own dispatcher, and answers with the latencies and the requests per pod.
 */
import { inFlight, peakEwma, relativeLatency, staticEndpoints } from 'evenkeel';
import { createDispatcher } from 'evenkeel/undici';

const loads = { inFlight, peakEwma, relativeLatency };

/** @typedef {{ ports: number[], load: keyof typeof loads, reports: boolean, perSecond: number, warmUpMs: number, lengthMs: number }} Task */

/** @param {Task} task */
async function play({ ports, load, reports, perSecond, warmUpMs, lengthMs }) {
  /** @type {number[]} */
  const latencies = [];
  /** @type {Record<string, number>} */
  const perPod = {};
  let failed = 0;
  let beganMs = 0;
  const dispatcher = createDispatcher('http://orders.shop:8080', {
    resolver: staticEndpoints(ports.map((port) => ({ address: '127.0.0.1', port }))),
    load: loads[load](),
    askForReports: reports,
    observer: {
      attemptEnded: ({ endpoint }) => {
        if (performance.now() - beganMs > warmUpMs) perPod[endpoint.port] = (perPod[endpoint.port] ?? 0) + 1;
      },
    },
  });
  await dispatcher.balancer.ready();
  beganMs = performance.now();
  const endMs = beganMs + warmUpMs + lengthMs;
  /** @type {Promise<void>[]} */
  const running = [];
  const send = async (/** @type {number} */ dueMs) => {
    try {
      const { body } = await dispatcher.request({ path: '/', method: 'GET' });
      await body.text();
      if (dueMs - beganMs > warmUpMs) latencies.push(performance.now() - dueMs);
    } catch {
      failed++;
    }
  };
  let nextMs = beganMs;
  while (nextMs < endMs) {
    for (const nowMs = performance.now(); nextMs <= nowMs && nextMs < endMs; ) {
      running.push(send(nextMs));
      nextMs += (-Math.log(1 - Math.random()) / perSecond) * 1_000;
    }
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await Promise.all(running);
  await dispatcher.close();
  return { latencies, perPod, failed };
}

process.on('message', (task) => {
  void play(/** @type {Task} */ (task)).then((result) => process.send?.(result));
});
process.on('disconnect', () => process.exit());
