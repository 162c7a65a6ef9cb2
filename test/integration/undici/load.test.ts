import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createDispatcher, createFetch, type ServiceDispatcher } from '../../../src/adapter/undici/index.js';
import { staticEndpoints } from '../../../src/resolver/static.js';
import { connected } from '../../support/connected.js';
import { Pods } from '../../support/pods.js';
import { until } from '../../support/until.js';

const origin = 'http://orders.shop:8080';
/** Requests of the keep-alive race; `PROOF=1` runs the full count. */
const RACES = process.env.PROOF ? 10_000 : 1_500;

let pods: Pods;
let dispatcher: ServiceDispatcher;

beforeEach(async () => {
  pods = await Pods.start(3);
  dispatcher = createDispatcher(origin, { resolver: staticEndpoints(pods.endpoints) });
  await connected(dispatcher.balancer, 3);
});
afterEach(async () => {
  await dispatcher.destroy();
  await pods[Symbol.asyncDispose]();
});

interface Tally {
  ok: number;
  readonly failed: unknown[];
}

/** Workers that send one request after the other until told to stop. */
function load(
  workers: number,
  send: (id: string) => Promise<unknown>,
): { readonly tally: Tally; stop(): Promise<void> } {
  const tally: Tally = { ok: 0, failed: [] };
  let stopped = false;
  const work = async (worker: number): Promise<void> => {
    for (let request = 0; !stopped; request++) {
      try {
        await send(`${worker}-${request}`);
        tally.ok++;
      } catch (error) {
        tally.failed.push(error);
      }
    }
  };
  const done = Promise.all(Array.from({ length: workers }, (_, worker) => work(worker)));
  return {
    tally,
    stop: async () => {
      stopped = true;
      await done;
    },
  };
}

const get = async (id: string): Promise<void> => {
  const { body } = await dispatcher.request({ path: '/', method: 'GET', headers: { 'x-id': `get-${id}` } });
  await body.dump();
};
const post = async (id: string): Promise<void> => {
  const headers = { 'x-id': `post-${id}` };
  const { body } = await dispatcher.request({ path: '/', method: 'POST', headers, body: 'once' });
  await body.dump();
};

describe('SIGKILL of one pod under load', () => {
  it('fails no GET whose answer had not begun, and sends no POST twice', async () => {
    for (const pod of pods.all) await pod.behave({ delayMs: 2 });
    const gets = load(16, get);
    const posts = load(8, post);
    await until('the load runs', () => gets.tally.ok > 300 && posts.tally.ok > 150);
    const before = gets.tally.ok;
    await pods.at(1).kill();
    await until('the load runs on', () => gets.tally.ok > before + 600);
    await gets.stop();
    await posts.stop();
    expect(gets.tally.failed).toEqual([]);
    // Those that were on that pod: nobody can know whether it had done its work.
    expect(posts.tally.failed.length).toBeLessThanOrEqual(8);
    pods.all.splice(1, 1);
    const twice = Object.entries(await pods.ids()).filter(([id, times]) => id.startsWith('post') && times > 1);
    expect(twice).toEqual([]);
  });

  it('fails no GET of a fetch', async () => {
    for (const pod of pods.all) await pod.behave({ delayMs: 2 });
    await using fetchOrders = createFetch(origin, { resolver: staticEndpoints(pods.endpoints) });
    const gets = load(12, async () => (await fetchOrders('/')).text());
    await until('the load runs', () => gets.tally.ok > 200);
    await pods.at(0).kill();
    await until('the load runs on', () => gets.tally.ok > 800);
    await gets.stop();
    expect(gets.tally.failed).toEqual([]);
  });
});

describe('pods that end idle connections without a word', () => {
  it(`loses none of ${RACES} GETs, and sends no POST twice`, async () => {
    for (const pod of pods.all) await pod.behave({ idleMs: 50 });
    const failedGets: unknown[] = [];
    let bursts = 0;
    for (let sent = 0; sent < RACES; bursts++) {
      // All at once, so that each pod has several connections, then a pause about as long as they live.
      const burst = Array.from({ length: 30 }, () => get(String(sent++)).catch((error) => failedGets.push(error)));
      const posts = Array.from({ length: 6 }, (_, index) => post(`${bursts}-${index}`).catch(() => {}));
      await Promise.all([...burst, ...posts]);
      await new Promise((resolve) => setTimeout(resolve, 46 + (bursts % 8)));
    }
    expect(failedGets).toEqual([]);
    const twice = Object.entries(await pods.ids()).filter(([id, times]) => id.startsWith('post') && times > 1);
    expect(twice).toEqual([]);
    // The race is one only if connections are lost all the time.
    expect(await pods.total('connections')).toBeGreaterThan(bursts * 3);
  });
});

describe('a balancer that is closed under load', () => {
  it('lets every call it took finish, refuses later ones by code, and leaves no connection', async () => {
    for (const pod of pods.all) await pod.behave({ delayMs: 20 });
    const posts = load(24, post);
    await until('the load runs', () => posts.tally.ok > 100);
    const closed = dispatcher.close();
    const ending = posts.stop();
    await closed;
    await ending;
    const codes = new Set(posts.tally.failed.map((error) => (error as { code?: string }).code));
    expect([...codes].filter((code) => code !== 'EVENKEEL_CLOSED')).toEqual([]);
    const ids = Object.values(await pods.ids());
    expect(ids).toHaveLength(posts.tally.ok);
    expect(await pods.total('aborted')).toBe(0);
    await until('every connection of the pods is closed', async () => (await pods.total('open')) === 0);
  });

  it('destroy cuts what runs, also while a close is waiting for it', async () => {
    const hanging = dispatcher.request({ path: '/hang', method: 'GET' });
    hanging.catch(() => {});
    await until('the pod has the request', async () => (await pods.total('requests')) === 1);
    const closed = dispatcher.close();
    await dispatcher.destroy();
    await closed;
    await expect(hanging).rejects.toMatchObject({ code: 'UND_ERR_DESTROYED' });
    await until('every connection of the pods is closed', async () => (await pods.total('open')) === 0);
  });

  it('close and destroy also take callbacks, and may be called again', async () => {
    await new Promise<void>((resolve) => dispatcher.close(resolve));
    await new Promise<void>((resolve) => dispatcher.destroy(resolve));
    await new Promise<void>((resolve) => dispatcher.destroy(null, resolve));
    await dispatcher.close();
  });
});

describe('a rolling update', () => {
  it('fails no request of any method', async () => {
    // Each pod in turn stops listening, then says `Connection: close`, then ends: what a pod does after SIGTERM.
    for (const pod of pods.all) await pod.behave({ delayMs: 2 });
    const gets = load(12, get);
    const posts = load(12, post);
    await until('the load runs', () => posts.tally.ok > 100);
    await pods.at(0).behave({ connection: 'close' });
    await pods.at(0).stopListening();
    await until('it drains', async () => (await pods.at(0).stats()).open === 0);
    await pods.at(0).kill();
    const before = posts.tally.ok;
    await until('the load runs on', () => posts.tally.ok > before + 200);
    await gets.stop();
    await posts.stop();
    expect(gets.tally.failed).toEqual([]);
    expect(posts.tally.failed).toEqual([]);
  });
});
