// @ts-check
/**
 * Thirty connections over three pods, a fourth pod joins, then one leaves.
 *
 *   node examples/tcp/demo.js
 */
import { connectedTo, inFlight, startService, until } from '../cluster.js';
import { connections, createTicker } from './main.js';

const service = await startService('ticker', new URL('pod.js', import.meta.url));
const ticker = createTicker({
  resolver: service.resolver,
  // Both much faster than you would want outside an example.
  leaveSpreadMs: 500,
  rebalance: { ratioPerMinute: 20 },
});

/** Connections that ended in an error. */
let lost = 0;
let isOver = false;
async function subscribe() {
  for await (const hadError of connections(ticker)) {
    if (isOver) return;
    if (hadError) lost++;
  }
}

const counts = () => Object.values(inFlight(ticker));
const total = () => counts().reduce((sum, count) => sum + count, 0);

await Promise.all(['anna', 'bert', 'cleo'].map(service.start));
await connectedTo(ticker, 3);
// One after the other: each goes to the pod with the fewest.
for (let made = 1; made <= 30; made++) {
  subscribe().catch(() => {});
  await until(() => total() === made);
}
console.log('three pods:       ', inFlight(ticker));

await service.start('dora');
await until(() => counts().length === 4 && Math.max(...counts()) <= 9 && total() === 30);
console.log('dora joins:       ', inFlight(ticker));

await service.stop('anna');
await until(() => counts().length === 3 && total() === 30);
console.log('anna has left:    ', inFlight(ticker));
console.log('connections lost: ', lost);

isOver = true;
await ticker.close({ signal: AbortSignal.abort() });
await service.close();
