import { describe, expect, it } from 'vitest';
import { flightRecorder } from '../../src/recorder/flight-recorder.js';
import { readDump } from '../../src/recorder/read-dump.js';
import { Replica } from '../../src/recorder/replica.js';
import { stagesOf } from '../../src/stage/standard-stages.js';
import { exponential, type Server } from './lib/server.js';
import { allStrategies, strategies, withStages } from './lib/strategies.js';
import { type Strategy, World } from './lib/world.js';

/** Records a client of ten servers, one of which turns slow, another leaves, and a third fails. */
async function record(strategy: Strategy, callsPerSecond: number, ms: number, servers = 10): Promise<Uint8Array> {
  const recorder = flightRecorder({ seconds: 3_600, bytes: 2 ** 26 });
  const world = new World({
    seed: 7,
    strategy: withStages(strategy, stagesOf()),
    servers,
    callsPerSecond,
    serviceTime: exponential(5),
    workers: 4,
    reports: (inFlight) => inFlight,
    deadlineMs: 500,
    recorder,
  });
  await world.start(ms / 4);
  (world.servers[1] as Server).behaviour = () => ({ kind: 'serve', slower: 10 });
  (world.servers[2] as Server).behaviour = () => ({ kind: 'fail', afterMs: 1 });
  await world.run(ms / 4);
  world.list(world.servers.slice(1));
  await world.run(ms / 4);
  (world.servers[2] as Server).behaviour = () => ({ kind: 'serve' });
  world.addServer();
  world.list();
  await world.run(ms / 4);
  const dump = recorder.dump();
  await world.close();
  return dump;
}

function replay(dump: Uint8Array): { picks: number; same: number; parts: number } {
  let picks = 0;
  let same = 0;
  let parts = 0;
  for (const balancer of readDump(dump).balancers) {
    for (const part of balancer.parts) {
      parts++;
      const replica = new Replica(balancer.configuration, part);
      for (let event = replica.next(); event !== undefined; event = replica.next()) {
        if (!('is' in event) || event.is !== 'pick') continue;
        picks++;
        if (event.again === event.recorded) same++;
      }
    }
  }
  return { picks, same, parts };
}

describe('replay of a recording', () => {
  it.each(allStrategies.map((strategy) => [strategy.name, strategy] as const))(
    '%s: makes every pick again',
    async (_name, strategy) => {
      const dump = await record(strategy, 2_000, 4_000);
      const { picks, same } = replay(dump);
      expect(picks).toBeGreaterThan(7_500);
      expect(same).toBe(picks);
    },
  );

  it('makes the picks of 100,000 calls again, with the defaults', async () => {
    const { picks, same } = replay(await record(strategies.standard, 12_600, 8_000, 40));
    expect(picks).toBeGreaterThan(100_000);
    expect(same).toBe(picks);
  });
});
