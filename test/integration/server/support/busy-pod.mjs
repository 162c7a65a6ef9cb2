/**
 * A pod as a process of its own, with `refuseWhileBusy`. `/work` keeps the event loop busy until the parent says `rest`, in slices, as
 * requests do that share one core; `/wait` waits until then, as requests do that wait for a database. All else is answered at once.
 */
import { createServer } from 'node:http';
import { createBackend } from 'evenkeel/server';

/** How long a slice of work is, in ms. */
const SLICE_MS = 2;
const pod = createBackend({ refuseWhileBusy: process.argv[2] !== 'never' });
/** @type {(() => void)[]} */
let held = [];
let isResting = true;
/** @type {{ method: string | undefined, offer: unknown }[]} */
let served = [];

function work() {
  if (isResting) return;
  const beganMs = performance.now();
  while (performance.now() - beganMs < SLICE_MS);
  setImmediate(work);
}

const server = createServer(
  pod.http(async (request, response) => {
    const { url, method, headers } = request;
    if (url === '/work' || url === '/wait') {
      if (url === '/work' && isResting) {
        isResting = false;
        work();
      }
      held.push(() => void response.end());
      return;
    }
    for await (const _chunk of request);
    served.push({ method, offer: headers['evenkeel-may-refuse'] });
    response.end(String(process.pid));
  }),
);
server.listen(0, '127.0.0.1', () => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  process.send?.({ port });
});
process.on('message', (message) => {
  if (message === 'rest') {
    isResting = true;
    for (const end of held) end();
    held = [];
  }
  process.send?.({ inFlight: pod.inFlight, served });
  if (message === 'served') served = [];
});
process.on('disconnect', () => process.exit(0));
