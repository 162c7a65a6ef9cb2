/**
 * What happens to requests while something is wrong: a slow pod, a dead pod, a rolling update. Each kind of client goes
 * through each scene alone, with fresh connections, at the same steady rate.
 */
import { openLoop } from './open-loop.mjs';
import { pause } from './pods.mjs';

/** Low enough for every kind of client to keep up with, so that what differs is not their speed. */
export const PER_SECOND = 400;
/** How long a pod takes in the scene with a slow one, and how long the slow one takes. */
export const USUAL_MS = 5;
export const SLOW_MS = 50;
/** Connections open, code is compiled. */
const WARM_UP_MS = 700;

/**
 * @typedef {object} Scene
 * @property {string} name
 * @property {(pods: import('./pods.mjs').Pods) => Promise<void>} prepare
 * @property {(pods: import('./pods.mjs').Pods, seconds: number) => Promise<void>} happen while requests are sent
 * @property {(pods: import('./pods.mjs').Pods) => Promise<void>} mend
 */

/** @type {Scene} */
export const slowPod = {
  name: 'one slow pod',
  prepare: async (pods) => {
    for (const [index, { name }] of pods.ready.entries()) pods.delay(name, index === 0 ? SLOW_MS : USUAL_MS);
  },
  happen: (_pods, seconds) => pause(seconds * 1_000),
  mend: async (pods) => {
    for (const { name } of pods.ready) pods.delay(name, 0);
  },
};

/** @type {Scene} */
export const deadPod = {
  name: 'one dead pod',
  prepare: async () => {},
  happen: async (pods, seconds) => {
    await pause(seconds * 300);
    pods.kill(String(pods.ready[0]?.name));
    await pause(seconds * 700);
  },
  mend: (pods) => pods.replace(String(pods.ready[0]?.name)),
};

/** @type {Scene} */
export const rollingUpdate = {
  name: 'rolling update',
  prepare: async () => {},
  happen: async (pods) => {
    await pods.roll();
    await pause(500);
  },
  mend: async () => {},
};

/**
 * @typedef {import('./open-loop.mjs').Tally & { shareOfFirst: number }} SceneTally
 *   `shareOfFirst`: of the requests, how many reached the first pod, the one that is slow; NaN if it is gone
 */

/**
 * One kind of client through one scene.
 * @param {Scene} scene
 * @param {import('./http-clients.mjs').HttpClientKind} kind
 * @param {import('./http-clients.mjs').ClientContext} context
 * @param {number} seconds
 * @returns {Promise<SceneTally>}
 */
export async function playScene(scene, kind, context, seconds) {
  const { pods } = context;
  const client = kind.create(context);
  await scene.prepare(pods);
  await openLoop(client.call, { perSecond: PER_SECOND, during: pause(WARM_UP_MS) });
  const first = String(pods.ready[0]?.name);
  const before = await pods.counts();
  const tally = await openLoop(client.call, { perSecond: PER_SECOND, during: scene.happen(pods, seconds) });
  const after = await pods.counts();
  const toFirst = Number(after.get(first)) - Number(before.get(first));
  await client.close();
  await scene.mend(pods);
  return { ...tally, shareOfFirst: toFirst / tally.sent };
}
