// @ts-check
/**
 * Three pods, one of them busy with requests our client does not know about. With reports the client avoids it; without them it cannot
 * know. Then one pod shuts down without losing a request.
 *
 *   node examples/server/main.js
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { inFlight, staticEndpoints } from 'evenkeel';
import { createDispatcher } from 'evenkeel/undici';

const names = ['anna', 'bert', 'cleo'];
// Here callers never notice that a pod leaves: it serves on until a second signal.
const pods = names.map((name) =>
  fork(new URL('pod.js', import.meta.url), { env: { ...process.env, POD_NAME: name, DELAY_MS: '600000' } }),
);
const ports = await Promise.all(pods.map(async (pod) => (await once(pod, 'message'))[0].port));

// What a pod reports to those who ask.
const asked = await fetch(`http://127.0.0.1:${ports[0]}/`, { headers: { 'endpoint-load-metrics-format': 'TEXT' } });
console.log('anna says:', asked.headers.get('endpoint-load-metrics')?.split(', ')[0]);

// Another client keeps anna busy: ten requests at any time.
let isOver = false;
const others = Array.from({ length: 10 }, async () => {
  while (!isOver) await (await fetch(`http://127.0.0.1:${ports[0]}/`)).text();
});

const resolver = staticEndpoints(ports.map((port) => ({ address: '127.0.0.1', port })));

/** Sends 200 requests, one after the other. @param {import('evenkeel/undici').DispatcherOptions} options */
async function shares(options) {
  const orders = createDispatcher('http://orders.shop:8080', { resolver, ...options });
  /** @type {Record<string, number>} */
  const counts = Object.fromEntries(names.map((name) => [name, 0]));
  for (let request = 0; request < 200; request++) {
    const { body } = await orders.request({ path: '/', method: 'GET' });
    const name = await body.text();
    counts[name] = (counts[name] ?? 0) + 1;
  }
  await orders.close();
  return counts;
}

console.log('with reports:          ', await shares({}));
console.log('calls in flight only:  ', await shares({ load: inFlight() }));

isOver = true;
await Promise.all(others);

// Bert gets SIGTERM while an unsuspecting client sends POSTs.
const [, bert] = pods;
const exited = once(/** @type {import('node:child_process').ChildProcess} */ (bert), 'exit');
bert?.kill('SIGTERM');
let answered = 0;
for (let request = 0; request < 50; request++) {
  if ((await fetch(`http://127.0.0.1:${ports[1]}/`, { method: 'POST' })).ok) answered++;
}
// In a cluster this would take seven seconds; a second signal cuts it short.
bert?.kill('SIGTERM');
const [code] = await exited;
console.log(`bert leaves:            ${answered} of 50 POSTs were answered, exit code ${code}`);
for (const pod of pods) if (pod.connected) pod.disconnect();
