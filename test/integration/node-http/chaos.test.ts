import { type Agent, get } from 'node:http';
import axios from 'axios';
import { staticEndpoints } from 'evenkeel';
import { createAgent } from 'evenkeel/node-http';
import { seededRng } from 'evenkeel/testing';
import { afterEach, expect, it } from 'vitest';
import { Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { chaos } from '../undici/support/chaos.js';
import { PROOF } from '../undici/support/proof.js';
import { running, send } from './support/request.js';

const origin = 'http://orders.shop:8080';
const DISTURBANCES = PROOF ? 300 : 12;

let pods: Pods;
afterEach(() => pods[Symbol.asyncDispose]());

it('whatever happens to the pods and whatever callers do, every call ends and nothing is left', {
  timeout: 300_000,
}, async () => {
  pods = await Pods.start(3);
  const rng = seededRng(20261121);
  const chance = (share: number): boolean => rng.next() < share;
  const agent = createAgent(origin, { resolver: staticEndpoints(pods.endpoints), connections: 4 });

  const upgrade = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      get(`${origin}/`, { agent, signal, headers: { connection: 'upgrade', upgrade: 'echo' } })
        .on('upgrade', (_response, socket) => {
          socket.on('error', () => {}).destroy();
          resolve();
        })
        .on('error', reject)
        .on('close', () => reject(new Error('ended')));
    });
  const call = async (signal: AbortSignal): Promise<void> => {
    const paths = ['/reset', '/reset-body', '/hang', '/hang-body', '/bytes/300000'];
    const path = chance(0.15) ? (paths[Math.floor(rng.next() * paths.length)] as string) : '/';
    const kind = rng.next();
    if (kind < 0.5) await send(agent, `${origin}${path}`, { signal });
    else if (kind < 0.7) await send(agent, `${origin}${path}`, { method: 'POST', body: 'x'.repeat(2_000), signal });
    else if (kind < 0.9)
      await axios.get(`${origin}${path}`, { httpAgent: agent, proxy: false, signal, timeout: 1_000 });
    else await upgrade(signal);
  };
  // Nobody waits for ever for a pod that hangs.
  await chaos({ pods, rng, call, patienceMs: 1_000, disturbances: DISTURBANCES });
  await until('every lease has ended', () => running(agent) === 0);
  await agent.close();
  expect([agent.sockets, agent.freeSockets, agent.requests]).toEqual([{}, {}, {}]);
  await until('every connection of the pods is closed', async () => (await pods.total('open')) === 0);
});

it('a socket that carries a thousand requests collects no listeners', async () => {
  pods = await Pods.start(1);
  const agent = createAgent(origin, { resolver: staticEndpoints(pods.endpoints) });
  const listeners = (of: Agent): number => {
    const [socket] = Object.values(of.freeSockets).flat();
    return (socket?.eventNames() ?? []).reduce((sum, event) => sum + (socket?.listenerCount(event) ?? 0), 0);
  };
  await send(agent, `${origin}/`);
  const first = listeners(agent);
  for (let request = 0; request < 1_000; request++) await send(agent, `${origin}/`);
  expect(listeners(agent)).toBe(first);
  expect(await pods.total('connections')).toBe(1);
  await agent.close();
});
