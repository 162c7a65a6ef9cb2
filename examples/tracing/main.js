// @ts-check
/**
 * Requests to two pods, of which one loses its connections and then is slow: a retry and a hedge, as OpenTelemetry shows them.
 *
 *   node examples/tracing/main.js
 */

import { createServer } from 'node:http';
import { trace } from '@opentelemetry/api';
import { roundRobin, staticEndpoints } from 'evenkeel';
import { createFetch } from 'evenkeel/undici';
import { exporter } from './tracing.js';

/** @type {'well' | 'cut' | 'slow'} */
let firstPod = 'well';

/** @param {string} name @param {() => typeof firstPod} how */
async function startPod(name, how) {
  const server = createServer((request, response) => {
    if (how() === 'cut') request.socket.resetAndDestroy();
    else setTimeout(() => response.end(name), how() === 'slow' ? 500 : 5);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return { server, endpoint: { address: '127.0.0.1', port, name, zone: 'a' } };
}

const pods = [await startPod('orders-1', () => firstPod), await startPod('orders-2', () => 'well')];
const orders = createFetch('http://orders.shop:8080', {
  resolver: staticEndpoints(pods.map(({ endpoint }) => endpoint)),
  picker: roundRobin(),
  hedge: { afterMs: 50 },
});

/** Requests of the application, each in a span of its own, until one has an attempt of this kind. @param {string} reason */
async function show(reason) {
  for (let isShown = false; !isShown; ) {
    exporter.reset();
    await trace.getTracer('shop').startActiveSpan(`a ${reason}`, async (span) => {
      const response = await orders('/orders/42');
      await response.text();
      span.end();
    });
    await new Promise((resolve) => setTimeout(resolve, 20));
    isShown = exporter.getFinishedSpans().some(({ attributes }) => attributes['evenkeel.reason'] === reason);
  }
  print(undefined, 0);
}

/** The spans below one. @param {string | undefined} parent @param {number} depth */
function print(parent, depth) {
  for (const span of exporter.getFinishedSpans()) {
    if (span.parentSpanContext?.spanId !== parent) continue;
    const { attributes: a } = span;
    const said = ['k8s.pod.name', 'evenkeel.reason', 'evenkeel.outcome', 'evenkeel.attempts'].flatMap((name) => {
      const value = a[name];
      return value === undefined ? [] : [`${name.replace(/.*\./, '')} ${value}`];
    });
    console.log(`${'  '.repeat(depth)}${span.name}${said.length > 0 ? `: ${said.join(', ')}` : ''}`);
    print(span.spanContext().spanId, depth + 1);
  }
}

firstPod = 'cut';
await show('retry');
firstPod = 'slow';
await show('hedge');

await orders.close();
for (const { server } of pods) server.close();
