/**
 * A pod that only waits: `workers` requests at once, `meanMs` each on average (exponential), further ones in order of arrival. It uses
 * no CPU, so that many fit on a small machine without disturbing each other. `slower` multiplies its times; with `neighbour` they are
 * `neighbour` times as long for 30 × `meanMs` on average, then as usual for 60 ×. `node sleeping-pod.mjs '{"workers":4,"meanMs":50}'`
 * sends its port to the parent. It reports its requests in flight to callers that ask.
 */
import { createServer } from 'node:http';
import { createBackend } from 'evenkeel/server';

const { workers, meanMs, slower = 1, neighbour = 1 } = JSON.parse(process.argv[2] ?? '{}');
const exponential = (/** @type {number} */ mean) => -Math.log(1 - Math.random()) * mean;
/** @type {(() => void)[]} */
const waiting = [];
let busy = 0;
let factor = slower;

function disturb() {
  const isQuiet = factor === slower;
  factor = isQuiet ? slower * neighbour : slower;
  setTimeout(disturb, exponential(isQuiet ? 30 * meanMs : 60 * meanMs));
}
if (neighbour !== 1) setTimeout(disturb, exponential(60 * meanMs));

const pod = createBackend();
const server = createServer(
  pod.http((request, response) => {
    request.resume();
    const work = () => {
      busy++;
      setTimeout(() => {
        busy--;
        waiting.shift()?.();
        response.end('ok');
      }, exponential(meanMs) * factor);
    };
    if (busy < workers) work();
    else waiting.push(work);
  }),
);
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => {
  const address = /** @type {import('node:net').AddressInfo} */ (server.address());
  process.send?.({ port: address.port });
});
process.on('disconnect', () => process.exit());
