// @ts-check
/**
 * `service-proxy.js` in its own process, so that nothing else in the playground slows it down: one for each port of the Service given
 * as an argument.
 */
import { createServiceProxy } from './service-proxy.js';

const proxies = new Map(process.argv.slice(2).map((name) => [name, createServiceProxy()]));

process.on(
  'message',
  (/** @type {{ type: string, pods: Record<string, import('./service-proxy.js').PodAddress[]> }} */ message) => {
    if (message.type !== 'pods') return;
    for (const [name, pods] of Object.entries(message.pods)) proxies.get(name)?.setPods(pods);
  },
);
process.on('SIGINT', () => {});
process.on('disconnect', () => process.exit(0));

/** @type {Record<string, number>} */
const ports = {};
for (const [name, proxy] of proxies) ports[name] = await proxy.listen();
process.send?.({ type: 'listening', ports });
