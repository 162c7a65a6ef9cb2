/**
 * A pod with limited capacity: `workers` requests at once, `meanMs` each on average (exponential); further ones wait in order of
 * arrival. Like most servers it keeps working for callers that have left. `node worker-pod.mjs 4 20` sends its port to the parent;
 * asked for `counts` it sends how many requests it started, and how many of those after the caller had left.
 *
 * `node worker-pod.mjs 4 20 limited` adds `createBackend({ limit: fixed(4) })` in front, and so has no queue of its own.
 */
import { createServer } from 'node:http';
import { fixed } from 'evenkeel';
import { createBackend } from 'evenkeel/server';

const workers = Number(process.argv[2]);
const meanMs = Number(process.argv[3]);
/** @type {(() => void)[]} */
const waiting = [];
let busy = 0;
let served = 0;
let forNobody = 0;

function next() {
  busy--;
  waiting.shift()?.();
}

/** @type {import('node:http').RequestListener} */
const listener = (request, response) => {
  request.resume();
  const work = () => {
    busy++;
    served++;
    if (response.destroyed) forNobody++;
    setTimeout(
      () => {
        next();
        if (!response.destroyed) response.end('ok');
      },
      -Math.log(1 - Math.random()) * meanMs,
    );
  };
  if (busy < workers) work();
  else waiting.push(work);
};
const isLimited = process.argv[4] === 'limited';
const pod = createBackend({ limit: fixed(workers), trust: () => true });
const server = createServer(isLimited ? pod.http(listener) : listener);
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => {
  const address = /** @type {import('node:net').AddressInfo} */ (server.address());
  process.send?.({ port: address.port });
});
process.on('message', () => process.send?.({ served, forNobody }));
process.on('disconnect', () => process.exit());
