/**
 * One client of a fleet: sends every arrival through all contenders at once, each to pods of its own.
 *
 *   fork('fleet-client.mjs'); takes one FleetOrder, sends { port: 0 } when it has begun to wait and a FleetShare at the end
 *
 * @typedef {object} FleetOrder
 * @property {number} seed
 * @property {readonly import('./fleet-contenders.mjs').Placed[]} contenders
 * @property {number} perSecond calls of this client, on average
 * @property {number} workMs mean work of a call
 * @property {{ times: number, forMs: number, everyMs: number } | undefined} bursts so many times the rate, for so long, every so often
 * @property {readonly { fromMs: number, untilMs: number }[]} rounds in ms of Unix time, one after the other; before the first it warms up
 * @property {number} startMs
 *
 * @typedef {object} FleetShare
 * @property {number[]} lateMs how late calls were sent
 * @property {readonly { atMs: number, workMs: number, round: number }[]} calls of all rounds; `round` −1 = between them
 * @property {readonly number[][]} latencies by contender, of each call, NaN = it failed
 */
import { seededRng } from 'evenkeel/testing';
import { createContender } from './fleet-contenders.mjs';

/** So late a machine cannot play at all, in ms. */
const TOO_LATE_MS = 2_000;
/** So long after the last call, in ms. */
const PATIENCE_MS = 20_000;

process.on('disconnect', () => process.exit());
process.once('message', (/** @type {FleetOrder} */ order) => void play(order));
process.send?.({ port: 0 });

/** @param {FleetOrder} order */
async function play({ seed, contenders, perSecond, workMs, bursts, rounds, startMs }) {
  const random = seededRng(seed);
  const subjects = await Promise.all(contenders.map(createContender));
  /** @type {FleetShare & { calls: { atMs: number, workMs: number, round: number }[] }} */
  const share = { lateMs: [], calls: [], latencies: subjects.map(() => []) };
  /** @type {Set<Promise<void>>} */
  const running = new Set();
  const now = () => performance.timeOrigin + performance.now();
  const peak =
    bursts === undefined ? 1 : (bursts.times * bursts.everyMs) / (bursts.everyMs + (bursts.times - 1) * bursts.forMs);
  const rateAt = (/** @type {number} */ atMs) =>
    bursts === undefined || (atMs - startMs) % bursts.everyMs < bursts.forMs ? peak : peak / bursts.times;
  const endMs = /** @type {{ untilMs: number }} */ (rounds.at(-1)).untilMs;
  let renewed = -1;
  for (let dueMs = startMs; ; ) {
    dueMs -= (Math.log(1 - random.next()) * 1_000) / (perSecond * peak);
    if (dueMs >= endMs) break;
    // Of the calls at the peak's rate those are left out that are too many now.
    if (random.next() * peak >= rateAt(dueMs)) continue;
    const normal = Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
    const work = workMs * Math.exp(normal - 0.5);
    if (dueMs > now()) await new Promise((resolve) => setTimeout(resolve, dueMs - now()));
    const round = rounds.findIndex(({ fromMs, untilMs }) => dueMs >= fromMs && dueMs < untilMs);
    // In the pause before a round: it begins with connections that have been drawn anew.
    const coming = rounds.findIndex(({ untilMs }) => dueMs < untilMs);
    if (coming !== renewed) {
      renewed = coming;
      for (const subject of subjects) subject.renew?.();
    }
    share.lateMs.push(now() - dueMs);
    // It would never catch up.
    if (now() - dueMs > TOO_LATE_MS) break;
    const call = share.calls.push({ atMs: dueMs, workMs: work, round }) - 1;
    for (let index = 0; index < subjects.length; index++) {
      // In turn: whoever is asked last begins a little later.
      const which = (call + index) % subjects.length;
      const latencies = /** @type {number[]} */ (share.latencies[which]);
      const subject = /** @type {import('./fleet-contenders.mjs').Contender} */ (subjects[which]);
      const request = timed(() => subject.call(work)).then((ms) => {
        latencies[call] = ms;
        running.delete(request);
      });
      running.add(request);
    }
  }
  // What has no answer by then counts as failed.
  const patience = setTimeout(() => send(), PATIENCE_MS);
  await Promise.all(running);
  clearTimeout(patience);
  for (const subject of subjects) await subject.close();
  send();

  function send() {
    for (const latencies of share.latencies) {
      for (let call = 0; call < share.calls.length; call++) latencies[call] ??= Number.NaN;
    }
    process.send?.(share, () => process.exit());
  }
}

/** How long a call took, in ms; NaN if it failed. @param {() => Promise<unknown>} call */
async function timed(call) {
  const begunMs = performance.now();
  try {
    await call();
    return performance.now() - begunMs;
  } catch {
    return Number.NaN;
  }
}
