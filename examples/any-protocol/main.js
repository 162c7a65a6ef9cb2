// @ts-check
import { fork } from 'node:child_process';
import { createBalancer, roundRobin, staticEndpoints } from 'evenkeel';
import { lineTransport } from './line-transport.js';

const program = new URL('./echo-server.js', import.meta.url);
const servers = ['anna', 'bert', 'cleo'].map((name) => fork(program, [name]));
const ports = await Promise.all(
  servers.map((server) => /** @type {Promise<number>} */ (new Promise((resolve) => server.once('message', resolve)))),
);

const balancer = createBalancer({
  resolver: staticEndpoints(ports.map((port) => ({ address: '127.0.0.1', port }))),
  transport: lineTransport,
  picker: roundRobin(),
});
await balancer.ready();

/** Asks `count` times and counts the answers of each server. @param {number} count */
async function ask(count) {
  /** @type {Record<string, number>} */
  const answers = {};
  for (let number = 0; number < count; number++) {
    // Asking twice does no harm, so if a connection dies, another server is asked.
    const answer = await balancer.run((client) => client.ask(`line ${number}`), { idempotent: true });
    const [name = ''] = answer.split(' ');
    answers[name] = (answers[name] ?? 0) + 1;
  }
  return answers;
}

console.log('three servers:          ', await ask(300));
servers[1]?.kill('SIGKILL');
console.log('one killed meanwhile:   ', await ask(300));
for (const { address, state } of balancer.snapshot().endpoints) console.log(`  ${address} ${state}`);

await balancer.close();
for (const server of servers) server.kill();
