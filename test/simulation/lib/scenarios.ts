import { slowStart } from '../../../src/stage/slow-start.js';
import type { StageFactory } from '../../../src/stage/stage.js';
import { stagesOf } from '../../../src/stage/standard-stages.js';
import { around, type Behaviour, lognormal, type Server } from './server.js';
import { withStages } from './strategies.js';
import type { Tally } from './tally.js';
import { type Strategy, World, type WorldOptions } from './world.js';

const serve: Behaviour = { kind: 'serve' };

/** Ten servers of about 20 ms, 1,000 calls per second, warmed up. */
async function tenServers(strategy: Strategy, seed: number, more: Partial<WorldOptions>): Promise<World> {
  const world = new World({
    seed,
    strategy,
    servers: 10,
    callsPerSecond: 1_000,
    serviceTime: lognormal(20, 0.5),
    ...more,
  });
  await world.start(10_000);
  return world;
}

/** One client, 11 servers of 167 ms ± 5, one of which takes 2 s for the middle half of the time; deadline 1 s. */
export async function oneServerSlow(strategy: Strategy, seed: number, lengthMs = 60_000): Promise<Tally> {
  const world = new World({
    seed,
    strategy,
    servers: 11,
    callsPerSecond: 1_000,
    serviceTime: around(167, 5),
    callsBringWork: true,
    deadlineMs: 1_000,
  });
  await world.start(5_000);
  const startMs = world.clock.now();
  (world.servers[0] as Server).behaviour = (nowMs) =>
    nowMs >= startMs + lengthMs / 4 && nowMs < startMs + (lengthMs * 3) / 4 ? { kind: 'serve', slower: 12 } : serve;
  const tally = await world.run(lengthMs);
  await world.finish(tally, 2_000);
  await world.close();
  return tally;
}

/** What a fault cost: failed calls before and after 2 s, and how many calls had been sent to the faulty server. */
export interface FaultCost {
  readonly early: number;
  /** Calls begun on the faulty server until one deadline after the first that met the fault: nobody can know before. */
  readonly exposed: number;
  readonly late: number;
  readonly lateCalls: number;
  readonly ejections: number;
}

/** Ten servers of about 20 ms, 1,000 calls per second, deadline 1 s; one server turns bad. Standard stages. */
export async function oneServerBad(
  strategy: Strategy,
  bad: Behaviour,
  seed: number,
  lengthMs = 60_000,
): Promise<FaultCost> {
  const world = await tenServers(withStages(strategy, stagesOf()), seed, { deadlineMs: 1_000 });
  const faulty = world.servers[3] as Server;
  const brokenMs = world.clock.now();
  let metMs: number | undefined;
  faulty.behaviour = (nowMs) => {
    metMs ??= nowMs;
    return bad;
  };
  const ejected = world.ejections.length;
  const early = [await world.run(1_000)];
  early.push(await world.run((metMs ?? brokenMs) - brokenMs));
  const exposed = early.reduce((calls, { perServer }) => calls + (perServer.get(faulty.address) ?? 0), 0);
  early.push(await world.run(brokenMs + 2_000 - world.clock.now()));
  const late = await world.run(lengthMs);
  await world.finish(late, 2_000);
  await world.close();
  return {
    early: early.reduce((calls, { failures }) => calls + failures.length, 0),
    exposed,
    late: late.failures.length,
    lateCalls: late.calls,
    ejections: world.ejections.length - ejected,
  };
}

/** 99th percentiles with and without a server at a tenth of its speed. Ten servers of about 20 ms, half loaded. */
export async function oneServerAtATenth(
  strategy: Strategy,
  seed: number,
  lengthMs = 60_000,
): Promise<{ readonly healthyMs: number; readonly p99Ms: number }> {
  const p99 = async (slower: number): Promise<number> => {
    const world = await tenServers(withStages(strategy, stagesOf()), seed, { workers: 4 });
    (world.servers[3] as Server).behaviour = () => ({ kind: 'serve', slower });
    const tally = await world.run(lengthMs);
    await world.finish(tally, 10_000);
    await world.close();
    return tally.quantileMs(0.99);
  };
  return { healthyMs: await p99(1), p99Ms: await p99(10) };
}

/** The standard ones and slow start. */
const withSlowStart = [...stagesOf().slice(0, -1), slowStart(), ...stagesOf().slice(-1)];

/** 99th percentiles with and without an eleventh server that joins cold: five times slower, warm after 10 s. */
export async function coldServerJoins(
  strategy: Strategy,
  seed: number,
  lengthMs = 60_000,
  stages: readonly StageFactory[] = withSlowStart,
): Promise<{ readonly withoutMs: number; readonly p99Ms: number }> {
  const p99 = async (joins: boolean): Promise<number> => {
    const world = await tenServers(withStages(strategy, stages), seed, { workers: 4 });
    if (joins) {
      const server = world.addServer();
      const bornMs = world.clock.now();
      server.behaviour = (nowMs) => ({ kind: 'serve', slower: 1 + 4 * Math.max(0, 1 - (nowMs - bornMs) / 10_000) });
      world.list();
    }
    const tally = await world.run(lengthMs);
    await world.finish(tally, 10_000);
    await world.close();
    return tally.quantileMs(0.99);
  };
  return { withoutMs: await p99(false), p99Ms: await p99(true) };
}

/** What an outage of all servers showed. */
export interface Outage {
  /** Share of calls that failed, from 1 s after the beginning to the end of the outage. */
  readonly failedRatio: number;
  /** Calls per server against the mean, from 1 s after the beginning to the end of the outage. */
  readonly shares: readonly number[];
  readonly failuresAfter1s: number;
  /** Servers that got no call from 1 s after the end on. */
  readonly unusedAfter1s: readonly string[];
}

/** All of ten servers fail for 10 s, then work again. */
export async function allServersFail(strategy: Strategy, seed: number): Promise<Outage> {
  const world = await tenServers(withStages(strategy, stagesOf()), seed, { deadlineMs: 1_000 });
  for (const server of world.servers) server.behaviour = () => ({ kind: 'fail', afterMs: 20 });
  await world.run(1_000);
  const during = await world.run(9_000);
  for (const server of world.servers) server.behaviour = () => serve;
  await world.run(1_000);
  const after = await world.run(9_000);
  await world.finish(after, 2_000);
  await world.close();
  return {
    failedRatio: during.failures.length / during.calls,
    shares: world.servers.map(({ address }) => ((during.perServer.get(address) ?? 0) * 10) / during.calls),
    failuresAfter1s: after.failures.length,
    unusedAfter1s: world.servers.map(({ address }) => address).filter((address) => !after.perServer.has(address)),
  };
}
