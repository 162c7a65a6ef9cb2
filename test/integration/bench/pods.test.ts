/** What the HTTP benchmark rests on: that its pods and proxies do what its pages say they do. */

import { Pool } from 'undici';
import { afterEach, describe, expect, it } from 'vitest';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';

interface PodInfo {
  readonly name: string;
  readonly address: string;
  readonly port: number;
  readonly state: string;
}
interface Pods {
  readonly all: readonly PodInfo[];
  readonly ready: readonly PodInfo[];
  follow(listener: (pods: readonly PodInfo[]) => void): () => void;
  counts(): Promise<ReadonlyMap<string, number>>;
  delay(name: string, delayMs: number): void;
  kill(name: string): void;
  replace(name: string): Promise<void>;
  roll(): Promise<void>;
  stop(): void;
}
interface LocalProxy {
  readonly name: string;
  readonly port: number;
  follow(pods: readonly PodInfo[]): void;
  stop(): Promise<void>;
}

const isProof = process.env.EVENKEEL_PROOF === '1';
const lib = (file: string) => import(new URL(`../../bench/lib/${file}`, import.meta.url).href);
const { Pods } = (await lib('pods.mjs')) as { Pods: { start(count: number): Promise<Pods> } };
const { missingProxies, startProxies } = (await lib('proxies.mjs')) as {
  missingProxies: readonly string[];
  startProxies(pods: readonly PodInfo[], protocol: 'http'): Promise<LocalProxy[]>;
};

let pods: Pods;
let clients: Pool[] = [];
afterEach(async () => {
  await Promise.all(clients.map((client) => client.destroy()));
  clients = [];
  pods.stop();
});

const client = (origin: string): Pool => {
  const pool = new Pool(origin, { connections: 1 });
  clients.push(pool);
  return pool;
};
const originOf = ({ address, port }: Pick<PodInfo, 'address' | 'port'>): string => `http://${address}:${port}`;
const get = async (pool: Pool): Promise<string | string[] | undefined> => {
  const { statusCode, headers, body } = await pool.request({ method: 'GET', path: '/' });
  await body.dump();
  expect(statusCode).toBe(200);
  return headers.connection;
};

describe.runIf(isProof)(titleOf('a pod of the benchmark', isProof, 'npm run proof -- bench'), () => {
  it('counts what it served', async () => {
    pods = await Pods.start(2);
    const [first, second] = pods.ready as [PodInfo, PodInfo];
    const pool = client(originOf(first));
    for (let request = 0; request < 5; request++) await get(pool);
    await get(client(originOf(second)));
    expect(Object.fromEntries(await pods.counts())).toEqual({ [first.name]: 5, [second.name]: 1 });
  });

  it('that is killed refuses connections and stays listed until another takes its place', async () => {
    pods = await Pods.start(1);
    const [only] = pods.ready as [PodInfo];
    let told = 0;
    pods.follow(() => told++);
    pods.kill(only.name);
    await until(
      'it refuses',
      async () =>
        !(await client(originOf(only))
          .request({ method: 'GET', path: '/' })
          .then(
            () => true,
            () => false,
          )),
    );
    expect(pods.ready).toEqual([only]);
    expect(told).toBe(0);
    await pods.replace(only.name);
    expect(told).toBe(1);
    expect(pods.ready.map(originOf)).not.toContain(originOf(only));
    await get(client(originOf(pods.ready[0] as PodInfo)));
  });
});

describe.runIf(isProof)(titleOf('a rolling update of the benchmark', isProof, 'npm run proof -- bench'), () => {
  it('keeps as many pods ready as before, announces those that end, and has them answer with Connection: close', async () => {
    pods = await Pods.start(2);
    const before = pods.all;
    const [old] = before as [PodInfo];
    // Asked when it is told to end, it answers after it has stopped to listen.
    pods.delay(old.name, 1_500);
    const pool = client(originOf(old));
    let farewell: Promise<unknown> | undefined;
    let fewest = before.length;
    pods.follow((all) => {
      fewest = Math.min(fewest, all.filter(({ state }) => state === 'ready').length);
      const isEnding = all.some(({ name, state }) => name === old.name && state === 'terminating');
      if (isEnding) farewell ??= get(pool);
    });
    await pods.roll();
    expect(await farewell).toBe('close');
    expect(fewest).toBe(2);
    expect(pods.all).toHaveLength(2);
    for (const { name } of before) expect(pods.all.map((pod) => pod.name)).not.toContain(name);
  });
});

describe.runIf(isProof)(titleOf('a local proxy of the benchmark', isProof, 'npm run proof -- bench'), () => {
  const what = 'passes requests on, and follows the pods when told to';
  it.skipIf(missingProxies.length > 0)([what, ...missingProxies].join('; '), async () => {
    pods = await Pods.start(2);
    const proxies = await startProxies(pods.ready, 'http');
    try {
      for (const { port } of proxies) await get(client(`http://127.0.0.1:${port}`));
      const total = (counts: ReadonlyMap<string, number>): number =>
        [...counts.values()].reduce((sum, n) => sum + n, 0);
      expect(total(await pods.counts())).toBe(proxies.length);
      const [gone, stays] = pods.ready as [PodInfo, PodInfo];
      for (const proxy of proxies) {
        proxy.follow([stays]);
        await until(`${proxy.name} leaves a pod out`, async () => {
          const before = await pods.counts();
          for (let request = 0; request < 6; request++) {
            // A connection of its own: workers from before the reload still serve theirs.
            await get(client(`http://127.0.0.1:${proxy.port}`)).catch(() => {});
          }
          const after = await pods.counts();
          return (
            after.get(gone.name) === before.get(gone.name) &&
            Number(after.get(stays.name)) > Number(before.get(stays.name))
          );
        });
      }
    } finally {
      for (const proxy of proxies) await proxy.stop();
    }
  });
});
