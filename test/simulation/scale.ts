import { exponential } from './lib/server.js';
import { strategies } from './lib/strategies.js';
import { World } from './lib/world.js';

const CLIENTS = 1_000;
const SERVERS = 1_000;
const TRAFFIC_MS = 10_000;

/** A large fleet, and how long its simulation takes: `npm run simulate -- --scale`. */
export async function scale(): Promise<void> {
  // CPU time of this process: what other programs do to the clock says nothing.
  const cpuSeconds = (): number => (process.cpuUsage().user + process.cpuUsage().system) / 1e6;
  const began = cpuSeconds();
  const world = new World({
    seed: 1,
    strategy: strategies.standard,
    servers: SERVERS,
    clients: CLIENTS,
    callsPerSecond: SERVERS * 4 * 100 * 0.7,
    serviceTime: exponential(10),
    workers: 4,
  });
  await world.start(0);
  const connected = cpuSeconds();
  const tally = await world.run(TRAFFIC_MS);
  const ended = cpuSeconds();
  console.log(
    `${CLIENTS} clients, ${SERVERS} servers, ${TRAFFIC_MS / 1_000} s of traffic, 70 % loaded: ${tally.calls} calls; ` +
      `p50 ${tally.quantileMs(0.5).toFixed(1)} ms, p99 ${tally.quantileMs(0.99).toFixed(1)} ms, max/mean ${tally.maxOverMean(SERVERS).toFixed(3)}. ` +
      `${(connected - began).toFixed(1)} s of CPU to connect, ${(ended - connected).toFixed(1)} s for the traffic, ` +
      `${(process.memoryUsage().rss / 2 ** 20).toFixed(0)} MiB`,
  );
}
