// @ts-check
/**
 * Thirty WebSockets over three pods, a fourth pod joins, then one leaves.
 *
 *   node examples/websocket/demo.js
 */
import { connectedTo, inFlight, startService, until } from '../cluster.js';
import { createChat, join } from './main.js';

const service = await startService('chat', new URL('pod.js', import.meta.url));
const chat = createChat({
  resolver: service.resolver,
  // Both much faster than you would want outside an example.
  leaveSpreadMs: 500,
  rebalance: { ratioPerMinute: 20 },
});

/** The codes with which sockets were closed. @type {Set<number>} */
const codes = new Set();
let isOver = false;
const closed = (/** @type {number} */ code) => {
  if (!isOver) codes.add(code);
  return !isOver;
};

const counts = () => Object.values(inFlight(chat));
const total = () => counts().reduce((sum, count) => sum + count, 0);

await Promise.all(['anna', 'bert', 'cleo'].map(service.start));
await connectedTo(chat, 3);
// One after the other: each goes to the pod with the fewest.
for (let made = 1; made <= 30; made++) {
  join(chat, closed);
  await until(() => total() === made);
}
console.log('three pods:     ', inFlight(chat));

await service.start('dora');
await until(() => counts().length === 4 && Math.max(...counts()) <= 9 && total() === 30);
console.log('dora joins:     ', inFlight(chat));

await service.stop('anna');
await until(() => counts().length === 3 && total() === 30);
console.log('anna has left:  ', inFlight(chat));
console.log('closed with:    ', [...codes]);

isOver = true;
await chat.close({ signal: AbortSignal.abort() });
await service.close();
