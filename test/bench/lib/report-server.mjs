/** Servers of node:http in a process of its own: plain, the same again, counted, and reporting. Says what its CPU time is. */
import { createServer } from 'node:http';
import { createPod } from 'evenkeel/server';

/** @type {import('node:http').RequestListener} */
const listener = (_request, response) => void response.setHeader('content-type', 'text/plain').end('hello');
const counting = createPod({ reports: false });
const reporting = createPod({ reports: { metrics: () => ({ jobs: 7 }) } });
const listeners = {
  plain: listener,
  again: listener,
  counted: counting.http(listener),
  reporting: reporting.http(listener),
};
/** @type {Record<string, number>} */
const ports = {};
for (const [name, own] of Object.entries(listeners)) {
  const server = createServer({ keepAliveTimeout: 0 }, own);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const address = server.address();
  ports[name] = typeof address === 'object' ? (address?.port ?? 0) : 0;
}
process.on('message', () => {
  globalThis.gc?.({ type: 'minor' });
  const { user, system } = process.cpuUsage();
  process.send?.({ us: user + system });
});
process.once('disconnect', () => process.exit(0));
process.send?.({ ports });
