import { once } from 'node:events';
import { createDispatcher, createFetch, type ServiceDispatcher } from 'evenkeel/undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import { until } from '../../support/until.js';
import { Cluster } from './support/cluster.js';
import { PROOF, report } from './support/proof.js';

const PODS = PROOF ? 10 : 3;
const CALLERS = PROOF ? 20 : 6;

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

let cluster: Cluster;
let orders: ServiceDispatcher;
let fetchOrders: ReturnType<typeof createFetch>;

beforeEach(async () => {
  cluster = await Cluster.start(PODS);
  orders = createDispatcher('http://orders.shop:8080', { resolver: cluster.resolver() });
  fetchOrders = createFetch('http://orders.shop:8080', { resolver: cluster.resolver() });
  await connected(orders.balancer, PODS);
  await connected(fetchOrders.balancer, PODS);
});
afterEach(async () => {
  await Promise.all([orders.destroy(), fetchOrders.balancer.close()]);
  await cluster[Symbol.asyncDispose]();
});

/** Each takes longer than a pod serves on after SIGTERM, so that every pod leaves in the middle of some. */
const kinds: readonly [string, () => Promise<unknown>, unknown][] = [
  [
    'a download with trailers',
    async () => {
      const { body, trailers } = await orders.request({ path: '/drip/30/50', method: 'GET' });
      const text = await body.text();
      return [text.split('\n').length - 1, trailers];
    },
    [30, { 'x-lines': '30' }],
  ],
  [
    'a download by fetch, read slowly',
    async () => {
      const response = await fetchOrders('/bytes/3000000');
      let length = 0;
      for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
        length += chunk.length;
        await pause(20);
      }
      return length;
    },
    3_000_000,
  ],
  [
    'an upload that comes back',
    async () => {
      const body = (async function* () {
        for (let piece = 0; piece < 15; piece++) {
          yield Buffer.from('x'.repeat(1_000));
          await pause(100);
        }
      })();
      const answer = await orders.request({ path: '/echo', method: 'POST', body: body as never });
      return [(await answer.body.text()).length, answer.trailers];
    },
    [15_000, { 'x-length': '15000' }],
  ],
  [
    'early hints',
    async () => {
      const informed: number[] = [];
      const onInfo = ({ statusCode }: { statusCode: number }): number => informed.push(statusCode);
      const { body } = await orders.request({ path: '/hints', method: 'GET', onInfo } as never);
      return [await body.text(), informed];
    },
    ['after the hints', [103]],
  ],
  [
    'an upgraded connection',
    async () => {
      const { socket } = await orders.upgrade({ path: '/', protocol: 'echo' });
      const heard: string[] = [];
      for (let word = 0; word < 10; word++) {
        socket.write('word');
        heard.push(String((await once(socket, 'data'))[0]));
        await pause(150);
      }
      socket.end();
      await once(socket, 'close');
      return heard;
    },
    new Array(10).fill('word'),
  ],
];

describe('what runs for long while every pod is replaced', () => {
  it(`arrives whole: ${kinds.map(([what]) => what).join(', ')}`, { timeout: 180_000 }, async () => {
    const wrong: string[] = [];
    const whole = new Map<string, number>();
    let stopped = false;
    const work = async ([what, use, expected]: (typeof kinds)[number]): Promise<void> => {
      while (!stopped) {
        try {
          expect(await use()).toEqual(expected);
          whole.set(what, (whole.get(what) ?? 0) + 1);
        } catch (error) {
          wrong.push(`${what}: ${error} ${(error as Error).cause ?? ''}`);
        }
      }
    };
    const working = Promise.all(kinds.flatMap((kind) => Array.from({ length: CALLERS }, () => work(kind))));
    await until('some of each were whole', () => whole.size === kinds.length);
    await cluster.roll();
    stopped = true;
    await working;
    report('long requests through a rolling update', { ...Object.fromEntries(whole), failed: wrong.length });
    expect(wrong).toEqual([]);
    expect(cluster.killed).toEqual([]);
  });
});
