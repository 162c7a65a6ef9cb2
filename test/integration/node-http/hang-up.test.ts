import { Agent } from 'node:http';
import { createAgent, type HttpServiceAgent } from 'evenkeel/node-http';
import { afterEach, describe, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import { Pods } from '../../support/pods/pods.js';
import { send } from './support/request.js';

type Method = 'GET' | 'POST';
type Send = (method: Method) => Promise<unknown>;

let pods: Pods;
let orders: HttpServiceAgent;
afterEach(async () => {
  orders.destroy();
  await orders.close();
  await pods[Symbol.asyncDispose]();
});

async function start(count: number): Promise<void> {
  pods = await Pods.start(count);
  const resolver = `static:${pods.endpoints.map(({ address, port }) => `${address}:${port}`).join(',')}`;
  orders = createAgent('http://orders.shop:8080', { resolver });
  await connected(orders.balancer, count);
}

const ours: Send = (method) => send(orders, 'http://orders.shop:8080/', { method });

/** Sends `count` requests, each to the end of its answer, by so many callers; returns how many failed. */
async function lost(sending: Send, method: Method, count: number, callers: number): Promise<number> {
  let failed = 0;
  let sent = 0;
  const caller = async (): Promise<void> => {
    while (sent++ < count) await sending(method).catch(() => failed++);
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return failed;
}

describe('pods that hang up after each response without saying so', () => {
  const PODS = 10;
  const REQUESTS = 400;
  /** A hang-up can come late, when the machine is busy: then nobody can see it before he sends. */
  const CHANCE = 4;

  it.each<[Method, number]>([
    ['POST', 1],
    ['POST', 40],
    ['GET', 1],
    ['GET', 40],
  ])('lose no more %ss than with Agents of Node, with %i callers', async (method, callers) => {
    await start(PODS);
    for (const pod of pods.all) await pod.behave({ hangUp: true });
    const stock = pods.endpoints.map(() => new Agent({ keepAlive: true }));
    let turn = 0;
    const inTurn: Send = (as) => {
      const index = turn++ % PODS;
      const { address, port } = pods.endpoints[index] as { address: string; port: number };
      return send(stock[index] as Agent, `http://${address}:${port}/`, { method: as });
    };
    const theirs = await lost(inTurn, method, REQUESTS, callers);
    const mine = await lost(ours, method, REQUESTS, callers);
    for (const agent of stock) agent.destroy();
    // Theirs come back before anybody can see a hang-up when they are many: 4 of 10 are lost.
    expect(mine).toBeLessThanOrEqual(theirs / 4 + CHANCE);
  });
});

describe('requests one after the other to one pod', () => {
  it.each<Method>(['POST', 'GET'])('use one connection: %s', async (method) => {
    await start(1);
    expect(await lost(ours, method, 20, 1)).toBe(0);
    expect(await pods.total('connections')).toBe(1);
  });
});
