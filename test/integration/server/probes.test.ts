import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { get, request as httpRequest, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { type BalancingOptions, type Clock, staticEndpoints, systemClock } from 'evenkeel';
import { channelOptions, target } from 'evenkeel/grpc-js';
import { createAgent } from 'evenkeel/node-http';
import { createDispatcher } from 'evenkeel/undici';
import { afterEach, describe, expect, it } from 'vitest';
import { until } from '../../support/until.js';

const probePaths = ['/.well-known/evenkeel-load', '/evenkeel.Load/Report'];
const callPaths = ['/', '/shop.v1.Orders/Get'];
const origin = 'http://orders.shop:8080';
const program = join(import.meta.dirname, 'support/asked-pod.mjs');

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Seen {
  readonly to: 'server' | 'application';
  readonly path: string;
  readonly headers: Readonly<Record<string, unknown>>;
}

const isProbe = ({ path }: Seen): boolean => probePaths.includes(path);

interface AskedPod {
  readonly process: ChildProcess;
  readonly port: number;
  readonly grpcPort: number;
  /** What came since the last time. */
  seen(): Promise<readonly Seen[]>;
  inFlight(): Promise<number>;
}

/** Pods that are processes. */
async function start(kind: 'reports' | 'old' | 'plain', count: number): Promise<readonly AskedPod[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const child = fork(program, [kind]);
      closing.push(async () => {
        if (child.exitCode === null && child.signalCode === null) {
          child.kill('SIGKILL');
          await once(child, 'exit');
        }
      });
      const [ports] = (await once(child, 'message')) as [{ port: number; grpcPort: number }];
      const ask = async (): Promise<{ seen: Seen[]; inFlight: number }> => {
        child.send('seen');
        const [answer] = (await once(child, 'message')) as [{ seen: Seen[]; inFlight: number }];
        return answer;
      };
      return {
        process: child,
        ...ports,
        seen: async () => (await ask()).seen,
        inFlight: async () => (await ask()).inFlight,
      };
    }),
  );
}

/** Others have `count` requests running on each of these pods: only then is there anything to learn by asking. */
async function occupy(pods: readonly AskedPod[], count: number): Promise<void> {
  for (const { port } of pods) {
    for (let held = 0; held < count; held++) {
      const outgoing = httpRequest({ host: '127.0.0.1', port, path: '/held', agent: false }).end();
      outgoing.on('error', () => {});
      closing.push(() => outgoing.destroy());
      const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
      response.on('error', () => {}).resume();
    }
  }
  for (const pod of pods) await pod.seen();
}

interface Caller {
  /** Sends one call with a secret of its own. */
  call(): Promise<unknown>;
}

/** Time on which calls are rare: whenever one begins, what pods said before is old. */
function rareCalls(): { readonly clock: Clock; skip(): void } {
  let skippedMs = 0;
  return {
    clock: { ...systemClock, now: () => systemClock.now() + skippedMs },
    skip() {
      skippedMs += 100;
    },
  };
}

type Open = (pods: readonly AskedPod[], options?: Pick<BalancingOptions, 'probes'>) => Caller;

const secret = { authorization: 'Bearer of-a-caller', cookie: 'session=1', 'x-own': 'yes', traceparent: '00-1-2-01' };
const endpoints = (pods: readonly AskedPod[]) =>
  staticEndpoints(pods.map(({ port }) => ({ address: '127.0.0.1', port })));

const clients: Record<string, Open> = {
  undici: (pods, options) => {
    const { clock, skip } = rareCalls();
    const dispatcher = createDispatcher(origin, { resolver: endpoints(pods), clock, ...options });
    closing.push(() => dispatcher.destroy());
    return {
      async call() {
        skip();
        const { body } = await dispatcher.request({ path: '/', method: 'GET', headers: secret });
        await body.dump();
      },
    };
  },
  'node:http': (pods, options) => {
    const { clock, skip } = rareCalls();
    const agent = createAgent(origin, { resolver: endpoints(pods), clock, ...options });
    closing.push(() => agent.destroy());
    return {
      async call() {
        skip();
        const [response] = (await once(get(`${origin}/`, { agent, headers: secret }), 'response')) as [IncomingMessage];
        response.resume();
        await once(response, 'end');
      },
    };
  },
  'grpc-js': (pods, options) => {
    const { clock, skip } = rareCalls();
    const resolver = staticEndpoints(pods.map(({ grpcPort }) => ({ address: '127.0.0.1', port: grpcPort })));
    const client = new Client(
      target('orders.shop:50051'),
      credentials.createInsecure(),
      channelOptions({ resolver, clock, ...options }),
    );
    closing.push(() => client.close());
    const same = (bytes: Buffer): Buffer => bytes;
    return {
      call: () =>
        new Promise((resolve, reject) => {
          skip();
          const metadata = new Metadata();
          for (const [name, value] of Object.entries(secret)) metadata.set(name, value);
          client.makeUnaryRequest('/shop.v1.Orders/Get', same, same, Buffer.alloc(0), metadata, (error) =>
            error ? reject(error) : resolve(undefined),
          );
        }),
    };
  },
};

/** Calls one after the other, until something is so. */
async function callUntil(caller: Caller, what: string, isSo: () => Promise<boolean>): Promise<number> {
  for (let calls = 1; calls <= 2_000; calls++) {
    await caller.call();
    if (calls % 10 === 0 && (await isSo())) return calls;
  }
  throw new Error(`never: ${what}`);
}

describe.each(Object.entries(clients))('probes of %s', (name, open) => {
  it('ask busy pods over their connections, and the application sees nothing of it', async () => {
    const pods = await start('reports', 4);
    await occupy(pods, 3);
    const caller = open(pods);
    const all: Seen[] = [];
    const asked = new Set<AskedPod>();
    const calls = await callUntil(caller, 'every pod was asked', async () => {
      for (const pod of pods) {
        const seen = await pod.seen();
        all.push(...seen);
        if (seen.some(isProbe)) asked.add(pod);
      }
      return asked.size === pods.length;
    });
    const probes = all.filter(isProbe);
    expect(probes.every(({ to }) => to === 'server')).toBe(true);
    expect(probes.length).toBeLessThanOrEqual(3 * calls);
    for (const { headers } of probes) for (const own of Object.keys(secret)) expect(headers).not.toHaveProperty(own);
    if (name !== 'grpc-js') {
      for (const { headers } of probes) {
        expect(headers).toMatchObject({ 'endpoint-load-metrics-format': 'TEXT', host: 'orders.shop:8080' });
      }
    }
    // The calls themselves are as ever, and nothing of a question is counted.
    const ofApplication = all.filter(({ to, headers }) => to === 'application' && headers['x-own'] === 'yes');
    expect(ofApplication).toHaveLength(calls);
    await until('only what was held is in flight', async () => {
      for (const pod of pods) if ((await pod.inFlight()) !== 3) return false;
      return true;
    });
  });

  it('are not sent with probes: "off", to idle pods, nor to pods without evenkeel/server', async () => {
    const busy = await start('reports', 2);
    const idle = await start('reports', 2);
    const plain = await start('plain', 2);
    await occupy(busy, 3);
    await occupy(plain, 3);
    for (const [pods, options] of [
      [busy, { probes: 'off' }],
      [idle, {}],
      [plain, {}],
    ] as const) {
      const caller = open(pods, options);
      for (let calls = 0; calls < 60; calls++) await caller.call();
      for (const pod of pods) {
        const seen = await pod.seen();
        expect(seen.filter(({ path }) => !callPaths.includes(path))).toEqual([]);
        expect(seen.length).toBeGreaterThan(0);
      }
    }
  });

  it('are sent once to pods that report and do not know the question, and nothing is held against them', async () => {
    const pods = await start('old', 3);
    await occupy(pods, 3);
    const caller = open(pods);
    for (let calls = 0; calls < 80; calls++) await caller.call();
    const counts: number[] = [];
    let asked = 0;
    for (const pod of pods) {
      const seen = await pod.seen();
      asked += seen.filter((one) => one.to === 'application' && isProbe(one)).length;
      counts.push(seen.filter((one) => one.to === 'application' && !isProbe(one)).length);
    }
    if (name !== 'grpc-js') expect(asked).toBe(1);
    expect(counts.reduce((sum, count) => sum + count)).toBe(80);
    expect(Math.min(...counts)).toBeGreaterThan(5);
  });
});
