// A pod for the namespaces of `addresses.test.ts`: HTTP at each of its addresses. Its parent opens and closes them over IPC.
import { createServer } from 'node:http';

const [, , name, port, ...hosts] = process.argv;
/** Connections accepted so far at each address. */
const connections = Object.fromEntries(hosts.map((host) => [host, 0]));
/** @type {Map<string, import('node:http').Server>} */
const servers = new Map();

for (const host of hosts) {
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ name }));
  });
  server.on('connection', () => {
    connections[host] = (connections[host] ?? 0) + 1;
  });
  servers.set(host, server);
  await new Promise((resolve) => server.listen(Number(port), host, () => resolve(undefined)));
}

process.on('message', (/** @type {{ close?: string }} */ { close }) => {
  if (close !== undefined) {
    const server = servers.get(close);
    server?.close();
    server?.closeAllConnections();
  }
  process.send?.({ connections });
});
process.once('disconnect', () => process.exit());
process.send?.('listening');
