// @ts-check
/** The calling app: one request after another, and every few seconds the number of answers of each pod. */
import { topologyFromEnv, topologyHints } from 'evenkeel';
import { createDispatcher } from 'evenkeel/undici';
import { Agent, request } from 'undici';

const url = process.env.ORDERS_URL ?? 'http://orders.shop';
const balanced = process.env.BALANCE === 'on';
const REPORT_MS = 5_000;
const PAUSE_MS = 10;

const dispatcher = balanced
  ? createDispatcher(url, {
      // The standard stages, and hints for pods in the same zone or on the same node, if the Service has them.
      stages: [topologyHints(topologyFromEnv())],
      observer: {
        discoveryChanged: ({ mode, reason, advice }) =>
          console.log(`found by ${mode}: ${reason}${advice ? `\n${advice}` : ''}`),
        resolveFailed: ({ error }) => console.log(`out of touch: ${error.message}`),
        resolveRecovered: ({ staleForMs }) => console.log(`in touch again after ${Math.round(staleForMs)} ms`),
        warned: ({ message }) => console.log(message),
      },
    })
  : new Agent({ connections: 1 });

/** @type {Map<string, number>} */
const answers = new Map();
let failed = 0;
let ended = false;

const report = setInterval(() => {
  const counts = [...answers].sort().map(([pod, count]) => `${pod} ${count}`);
  console.log(`${balanced ? 'evenkeel  ' : 'keep-alive'}  ${counts.join('  ') || 'nobody answered'}  failed ${failed}`);
  answers.clear();
  failed = 0;
}, REPORT_MS);

process.once('SIGTERM', () => {
  ended = true;
});

while (!ended) {
  try {
    const { statusCode, body } = await request(url, { dispatcher });
    const pod = await body.text();
    if (statusCode === 200) answers.set(pod, (answers.get(pod) ?? 0) + 1);
    else failed += 1;
  } catch {
    failed += 1;
  }
  await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
}
clearInterval(report);
await dispatcher.close();
