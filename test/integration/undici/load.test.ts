import { staticEndpoints } from 'evenkeel';
import { createDispatcher, type ServiceDispatcher } from 'evenkeel/undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import { Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';

const origin = 'http://orders.shop:8080';

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

describe('a balancer that is closed under load', () => {
  it('lets every call it accepted finish, refuses later ones by code, and leaves no connection', async () => {
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

  it('and destroyed cuts running calls, also while the close waits for them', async () => {
    const hanging = dispatcher.request({ path: '/hang', method: 'GET' });
    hanging.catch(() => {});
    await until('the pod has the request', async () => (await pods.total('requests')) === 1);
    const closed = dispatcher.close();
    await dispatcher.destroy();
    await closed;
    await expect(hanging).rejects.toMatchObject({ code: 'UND_ERR_DESTROYED' });
    await until('every connection of the pods is closed', async () => (await pods.total('open')) === 0);
  });

  it('and destroyed ends also in the moment between two requests on one connection', async () => {
    const warnings: string[] = [];
    const orders = createDispatcher(origin, {
      resolver: staticEndpoints(pods.endpoints),
      connections: 1,
      observer: { warned: ({ message }) => warnings.push(message) },
    });
    await connected(orders.balancer, 3);
    const answers = Array.from({ length: 12 }, async () => {
      const { body } = await orders.request({ path: '/', method: 'GET' });
      await body.dump();
    });
    const ends = Promise.allSettled(answers);
    await Promise.race(answers);
    // One that waited was handed to undici by now, which writes it only in its next turn.
    await orders.destroy();
    expect(await ends).toHaveLength(12);
    // The pool says so when it has waited in vain.
    expect(warnings).toEqual([]);
  });

  it('accepts callbacks for close and destroy, also repeatedly', async () => {
    await new Promise<void>((resolve) => dispatcher.close(resolve));
    await new Promise<void>((resolve) => dispatcher.destroy(resolve));
    await new Promise<void>((resolve) => dispatcher.destroy(null, resolve));
    await dispatcher.close();
  });
});

describe('a pod that leaves unannounced', () => {
  it('stops listening and says `Connection: close`: no request of any method fails', async () => {
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
