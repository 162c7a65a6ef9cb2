// @ts-check
/** `service-proxy.js` in a process of its own, so that nothing else the playground does slows it down. */
import { createServiceProxy } from './service-proxy.js';

const proxy = createServiceProxy();

process.on('message', (/** @type {{ type: string, ports: number[] }} */ message) => {
  if (message.type === 'pods') proxy.setPods(message.ports);
});
process.on('SIGINT', () => {});
process.on('disconnect', () => process.exit(0));

process.send?.({ type: 'listening', port: await proxy.listen() });
