import type { EndpointInit } from 'evenkeel';
import { FakeResolver } from 'evenkeel/testing';
import { createWebSockets, type ServiceWebSockets, type WebSocketsOptions } from 'evenkeel/ws';
import { describe, expect, it } from 'vitest';
import { closedAfterEach } from '../../support/opened.js';
import { WsPod } from '../../support/pods/ws-pods.js';
import { until } from '../../support/until.js';

/** In the suite at a small size; `npm run proof -- websocket` at that of a large Service, with the rates. */
const isProof = process.env.EVENKEEL_PROOF === '1';
const size = isProof
  ? { pods: 10, clients: 10, sockets: 1_000, drainTimeoutMs: 15_000, leaveSpreadMs: 5_000, ratioPerMinute: 0.25 }
  : { pods: 4, clients: 2, sockets: 80, drainTimeoutMs: 2_000, leaveSpreadMs: 500, ratioPerMinute: 10 };
const patienceMs = isProof ? 300_000 : 90_000;

const open = closedAfterEach();

const url = 'ws://chat.shop:8080';
const total = (counts: readonly number[]): number => counts.reduce((sum, count) => sum + count, 0);
const maxToMean = (counts: readonly number[]): number => Math.max(...counts) / (total(counts) / counts.length);

async function startPods(count: number): Promise<WsPod[]> {
  const pods: WsPod[] = [];
  for (let started = 0; started < count; started++) pods.push(await WsPod.start());
  open.push(...pods);
  return pods;
}

/** Clients whose sockets come back as soon as they are closed. */
class Clients implements AsyncDisposable {
  readonly resolvers: FakeResolver[] = [];
  /** How often a socket was closed, by code. */
  readonly codes: Record<number, number> = {};
  /** Times a socket was opened after the first. */
  moved = 0;
  #isOver = false;
  readonly #clients: ServiceWebSockets[] = [];

  constructor(options: (index: number) => WebSocketsOptions) {
    for (let index = 0; index < size.clients; index++) {
      const resolver = new FakeResolver();
      this.resolvers.push(resolver);
      this.#clients.push(createWebSockets(url, { ...options(index), resolver }));
    }
    open.push(this);
  }

  publish(endpoints: readonly EndpointInit[]): void {
    for (const resolver of this.resolvers) resolver.update(...endpoints);
  }

  start(listens: (client: number) => boolean): void {
    for (let made = 0; made < size.sockets; made++) this.#keep(made % size.clients, listens(made % size.clients));
  }

  #keep(client: number, listens: boolean): void {
    const { WebSocket } = this.#clients[client] as ServiceWebSockets;
    const socket = new WebSocket(url);
    socket.on('error', () => {});
    if (listens) socket.on('leaving' as 'open', () => socket.close(1000));
    socket.on('close', (code) => {
      if (this.#isOver) return;
      this.codes[code] = (this.codes[code] ?? 0) + 1;
      this.moved++;
      this.#keep(client, listens);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#clients.map((client) => client.close({ signal: AbortSignal.abort() })));
  }
}

/** Most arrivals in any second. */
function busiestSecond(arrivals: readonly number[]): number {
  const sorted = [...arrivals].sort((a, b) => a - b);
  let most = 0;
  let from = 0;
  sorted.forEach((atMs, index) => {
    while ((sorted[from] as number) <= atMs - 1_000) from++;
    most = Math.max(most, index - from + 1);
  });
  return most;
}

/** The same as a multiple of the mean per second, from the first to the last. */
function peakToMean(arrivals: readonly number[]): number {
  const seconds = Math.max(1, (Math.max(...arrivals) - Math.min(...arrivals)) / 1_000);
  return busiestSecond(arrivals) / (arrivals.length / seconds);
}

describe(`${size.sockets} WebSockets of ${size.clients} clients over ${size.pods} pods`, () => {
  it(
    'in a rolling update: all move, none is cut, the new pods have even shares',
    async () => {
      const { drainTimeoutMs, leaveSpreadMs } = size;
      // A third each: closed at their turn, listening, neither.
      const clients = new Clients((index) => ({
        pool: { drainTimeoutMs },
        leaveSpreadMs,
        closeLeaving: index % 3 === 0,
      }));
      const old = await startPods(size.pods);
      const present: EndpointInit[] = old.map(({ endpoint }) => endpoint);
      clients.publish(present);
      clients.start((index) => index % 3 === 1);
      await until('all are open', () => total(old.map(({ stats }) => stats.open)) === size.sockets, patienceMs);
      if (isProof) console.log('before:', old.map(({ stats }) => stats.open).join(' '));

      const fresh: WsPod[] = [];
      for (const leaver of old) {
        const [replacement] = (await startPods(1)) as [WsPod];
        fresh.push(replacement);
        present.push(replacement.endpoint);
        const conditions = { ready: false, serving: true, terminating: true };
        present[present.indexOf(leaver.endpoint)] = { ...leaver.endpoint, conditions };
        clients.publish(present);
        await until('it is empty', () => leaver.stats.accepted > 0 && leaver.stats.open === 0, patienceMs);
        await leaver.command('nothing');
        expect(Object.keys(leaver.stats.closes).sort()).toEqual(['1000', '1012'].slice(size.clients > 1 ? 0 : 1));
        present.splice(
          present.findIndex(({ port }) => port === leaver.endpoint.port),
          1,
        );
        clients.publish(present);
        await leaver.kill();
      }
      const counts = () => fresh.map(({ stats }) => stats.open);
      await until('all are open', () => total(counts()) === size.sockets, patienceMs);
      const ratio = maxToMean(counts());
      const peak = peakToMean(fresh.flatMap(({ stats }) => stats.arrivals));
      const busiest = fresh.map(({ stats }) => busiestSecond(stats.arrivals));
      if (isProof) {
        console.log('after:', counts().join(' '), 'max/mean', ratio.toFixed(2), 'codes', clients.codes);
        console.log(`moves ${clients.moved}; arrivals, busiest second / mean: all ${peak.toFixed(1)}`);
        console.log(`  busiest second by pod: ${busiest.join(' ')}`);
        expect(peak).toBeLessThanOrEqual(5);
      }
      expect(clients.codes[1006]).toBeUndefined();
      // Each moves once; one more where a pod was slow to accept.
      expect(clients.moved).toBeGreaterThanOrEqual(size.sockets);
      expect(clients.moved).toBeLessThanOrEqual(1.05 * size.sockets);
      expect(ratio).toBeLessThanOrEqual(1.5);
    },
    isProof ? 600_000 : 240_000,
  );

  it(
    'in a scale-out to twice the pods: even within the time, with no more moves than needed',
    async () => {
      const clients = new Clients(() => ({ rebalance: { ratioPerMinute: size.ratioPerMinute } }));
      const first = await startPods(size.pods / 2);
      clients.publish(first.map(({ endpoint }) => endpoint));
      clients.start(() => false);
      await until('all are open', () => total(first.map(({ stats }) => stats.open)) === size.sockets, patienceMs);
      const pods = [...first, ...(await startPods(size.pods / 2))];
      clients.publish(pods.map(({ endpoint }) => endpoint));
      const counts = () => pods.map(({ stats }) => stats.open);
      const beganMs = performance.now();
      await until('they are even', () => total(counts()) === size.sockets && maxToMean(counts()) <= 1.2, patienceMs);
      const tookMs = performance.now() - beganMs;
      // It stops: what comes in two more checks is counted as well.
      if (isProof) await new Promise((resolve) => setTimeout(resolve, 15_000));
      await until('all are open', () => total(counts()) === size.sockets, patienceMs);
      const mean = size.sockets / size.pods;
      const needed = (size.pods / 2) * Math.ceil(2 * mean - 1.2 * mean);
      if (isProof) {
        console.log(
          `after ${(tookMs / 1_000).toFixed(0)} s:`,
          counts().join(' '),
          `moved ${clients.moved} of ${needed} needed`,
        );
        expect(tookMs).toBeLessThanOrEqual(180_000);
      }
      expect(maxToMean(counts())).toBeLessThanOrEqual(1.2);
      expect(clients.moved).toBeLessThanOrEqual(Math.ceil(1.1 * needed));
      expect(Object.keys(clients.codes)).toEqual(['1012']);
    },
    isProof ? 600_000 : 240_000,
  );
});
