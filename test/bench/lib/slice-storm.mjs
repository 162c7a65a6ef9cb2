/**
 * An API server with 5,000 endpoints in 50 slices, in a process of its own: told to, it replaces one pod a thousand times
 * a second.
 *
 *   fork('slice-storm.mjs'); receives { url }; send { seconds }; receives { written, seconds }
 */
import { seededRng } from 'evenkeel/testing';
import { createApiServer } from '../../servers/index.js';

const SLICES = 50;
const MEMBERS = 100;
const rng = seededRng(1);
const draw = (/** @type {number} */ below) => Math.floor(rng.next() * below);
const generations = Array.from({ length: SLICES }, () => new Array(MEMBERS).fill(0));

const api = await createApiServer();
const write = (/** @type {number} */ slice) =>
  api.slices.put({
    metadata: { name: `orders-${slice}`, namespace: 'shop', labels: { 'kubernetes.io/service-name': 'orders' } },
    addressType: 'IPv4',
    endpoints: /** @type {number[]} */ (generations[slice]).map((generation, member) => ({
      addresses: [`10.${generation % 250}.${slice}.${member}`],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: `node-${member % 20}`,
      zone: `zone-${member % 3}`,
      targetRef: {
        kind: 'Pod',
        name: `orders-${slice}-${member}-${generation}`,
        uid: `${slice}-${member}-${generation}`,
      },
    })),
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  });
for (let slice = 0; slice < SLICES; slice++) write(slice);

process.on('message', (/** @type {{ seconds: number }} */ { seconds }) => {
  const begunMs = performance.now();
  let written = 0;
  const timer = setInterval(() => {
    const elapsedMs = performance.now() - begunMs;
    if (elapsedMs >= seconds * 1_000) {
      clearInterval(timer);
      process.send?.({ written, seconds: elapsedMs / 1_000 });
      return;
    }
    // A few at a time at most: a machine that cannot keep up writes fewer, rather than bursts.
    for (let few = 0; few < 5 && written < elapsedMs; few++) {
      const slice = draw(SLICES);
      const members = /** @type {number[]} */ (generations[slice]);
      const member = draw(MEMBERS);
      members[member] = Number(members[member]) + 1;
      write(slice);
      written += 1;
    }
  }, 1);
});
process.on('disconnect', () => process.exit(0));
process.send?.({ url: api.url });
