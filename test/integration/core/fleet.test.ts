import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer, type Server, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/until.js';

/** No multiple of the workers: each has five and a half. */
const PODS = 22;
const WORKERS = 4;
const SIZE = 4;

interface Client {
  readonly connected: readonly { readonly port: number; readonly weight: number }[];
  readonly warnings: readonly string[];
}

const servers: Server[] = [];
const open = new Map<number, Set<Socket>>();
beforeAll(async () => {
  for (let index = 0; index < PODS; index++) {
    const sockets = new Set<Socket>();
    const server = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    servers.push(server);
    open.set((server.address() as AddressInfo).port, sockets);
  }
});
afterAll(() => Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve)))));

let child: ChildProcess | undefined;
afterEach(async () => {
  if (child === undefined) return;
  const exited = once(child, 'exit');
  child.disconnect();
  await exited;
  child = undefined;
  await until('no connection is left', () => [...open.values()].every(({ size }) => size === 0));
});

/** Starts clients, and keeps what each said last, by its number. */
function start(program: string, task: object): Map<number, Client> {
  const clients = new Map<number, Client>();
  const file = fileURLToPath(new URL(`support/${program}`, import.meta.url));
  child = fork(file, [JSON.stringify({ workers: WORKERS, size: SIZE, ports: [...open.keys()], ...task })], {
    execArgv: [],
  });
  child.on('message', ({ pid, ...client }: Client & { readonly pid: number }) => clients.set(pid, client));
  return clients;
}

function kill(clients: Map<number, Client>, client: number): void {
  clients.delete(client);
  child?.send({ kill: client });
}

/** What each pod gets of all, if clients send alike. */
function sharesOf(clients: ReadonlyMap<number, Client>): number[] {
  const shares = new Map([...open.keys()].map((port) => [port, 0]));
  for (const { connected } of clients.values()) {
    const total = connected.reduce((sum, { weight }) => sum + weight, 0);
    for (const { port, weight } of connected) shares.set(port, (shares.get(port) ?? 0) + weight / total);
  }
  return [...shares.values()].map((share) => (share * PODS) / clients.size);
}

const connections = (): number => [...open.values()].reduce((sum, { size }) => sum + size, 0);
const isEven = (clients: ReadonlyMap<number, Client>): boolean =>
  clients.size === WORKERS && sharesOf(clients).every((share) => Math.abs(share - 1) < 0.001);
const portsOf = (client: Client | undefined): number[] => (client?.connected ?? []).map(({ port }) => port).sort();

describe.each([
  ['workers of a cluster', 'fleet-primary.mjs', { placesWorkers: true }],
  ['threads of a process', 'fleet-threads.mjs', {}],
])('%s', (_what, program, task) => {
  it('divide the pods evenly without being told how many clients there are', async () => {
    const clients = start(program, task);
    await until('all pods are used alike', () => isEven(clients));
    // Each pod once, and once more where one lies between two clients; without subsets it would be 88.
    await until('other connections are closed', () => connections() <= PODS + WORKERS);
    expect(connections()).toBeGreaterThanOrEqual(PODS);
    for (const { connected, warnings } of clients.values()) {
      expect(connected.length).toBeLessThanOrEqual(8);
      expect(warnings).toEqual([]);
    }
  });
});

describe('a worker of a cluster', () => {
  it('takes over the pods of the worker it replaces, and no other worker moves', async () => {
    const clients = start('fleet-primary.mjs', { placesWorkers: true });
    await until('all pods are used alike', () => isEven(clients));
    const [killed, ...others] = [...clients.keys()] as [number, ...number[]];
    const before = new Map([...clients].map(([pid, client]) => [pid, portsOf(client)]));
    kill(clients, killed);
    await until('another one has its part', () => {
      const late = [...clients.keys()].find((pid) => pid !== killed && !others.includes(pid));
      return late !== undefined && String(portsOf(clients.get(late))) === String(before.get(killed));
    });
    for (const pid of others) expect(portsOf(clients.get(pid))).toEqual(before.get(pid));
  });

  it('uses all pods if its primary assigns no places, and says so', async () => {
    const clients = start('fleet-primary.mjs', { placesWorkers: false });
    await until('each is connected to all', () => {
      return clients.size === WORKERS && [...clients.values()].every(({ connected }) => connected.length === PODS);
    });
    for (const { warnings } of clients.values()) {
      expect(warnings).toEqual([expect.stringContaining('call placeWorkers() in the primary')]);
    }
  });
});
