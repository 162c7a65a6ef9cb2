import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { createDnsServer } from './dns-server.js';

/**
 * The DNS server as a process of its own: `node test/servers/dns-program.js [--port 0] [--ttl 5] [--cache] [--domain cluster.local]`.
 * Prints `listening <ip>:<port>`, then reads one JSON command per line from stdin and answers each with one JSON line. Ends when stdin
 * ends.
 */

const { values } = parseArgs({
  options: {
    host: { type: 'string', default: '127.0.0.1' },
    port: { type: 'string', default: '0' },
    ttl: { type: 'string', default: '5' },
    domain: { type: 'string', default: 'cluster.local' },
    cache: { type: 'boolean', default: false },
  },
});

const server = await createDnsServer({
  host: values.host,
  port: Number(values.port),
  ttl: Number(values.ttl),
  clusterDomain: values.domain,
  cache: values.cache,
});
console.log(`listening ${server.address}`);

for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() === '') continue;
  try {
    console.log(JSON.stringify(await run(server, JSON.parse(line))));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
await server.close();

async function run(dns, command) {
  if (command.service) dns.kubernetes.set(command.service);
  if (command.deleteService) dns.kubernetes.delete(command.deleteService.namespace, command.deleteService.name);
  if (command.records) dns.zone.set(command.records.name, command.records);
  if (command.deleteRecords) dns.zone.delete(command.deleteRecords);
  if (command.clearFaults) dns.clearFaults();
  if (command.fault) dns.fault(command.fault, command.fault.scope);
  if (command.acceptTcp !== undefined) await dns.acceptTcp(command.acceptTcp);
  return command.count === undefined ? { ok: true } : { ok: true, count: dns.count(command.count) };
}
