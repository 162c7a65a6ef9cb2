/** The tables and the picture of the scenes in which something is wrong. */
import { barChart } from './bar-chart.mjs';
import { names, peakEwmaKind } from './http-clients.mjs';
import { deadPod, PER_SECOND, playScene, rollingUpdate, SLOW_MS, slowPod, USUAL_MS } from './http-scenes.mjs';
import { grouped, table } from './table.mjs';

/** A client that sends half of its requests later than this gets too little CPU to tell anything of its pods. */
const TOO_LATE_MS = 20;

/** @typedef {import('./http-clients.mjs').HttpClientKind} HttpClientKind */
/** @typedef {Map<string, import('./http-scenes.mjs').SceneTally>} SceneTallies by name of the client */

/**
 * Every kind through every scene, one after the other.
 * @param {import('./http-clients.mjs').ClientContext} context
 * @param {readonly HttpClientKind[]} kinds
 * @param {{ seconds: number, progress: (text: string) => void }} options
 */
export async function playAll(context, kinds, { seconds, progress }) {
  /** @param {import('./http-scenes.mjs').Scene} scene @param {readonly HttpClientKind[]} players @returns {Promise<SceneTallies>} */
  const play = async (scene, players) => {
    const tallies = new Map();
    for (const kind of players) {
      progress(`${scene.name}: ${kind.name}`);
      tallies.set(kind.name, await playScene(scene, kind, context, seconds));
    }
    return tallies;
  };
  const slow = await play(slowPod, withPeakEwma(kinds));
  const dead = await play(deadPod, kinds);
  const rolled = await play(rollingUpdate, kinds);
  return { slow, dead, rolled, seconds, picture: () => picture(dead, rolled) };
}

/** @param {Awaited<ReturnType<typeof playAll>>} scenes @param {readonly HttpClientKind[]} kinds */
export function faultSections({ slow, dead, rolled, seconds }, kinds) {
  return `${grouped(PER_SECOND)} requests a second, no matter how they are answered; each row alone, with connections of its own. One run of a few
seconds each: these are figures to look at, not ratios to judge. "Machine too busy": the client itself got too little CPU to send in time.

**One of the pods is slow**: it takes ${SLOW_MS} ms, the others ${USUAL_MS} ms. ${seconds} s.

${tallyTable(slow, withPeakEwma(kinds), { title: 'sent to it', of: ({ shareOfFirst }) => `${(100 * shareOfFirst).toFixed(1)} %` })}

**One of the pods dies** (kill -9) after ${(seconds * 0.3).toFixed(1)} of ${seconds} s and nobody is told: not the Service, not the list, not the proxies' configuration.

${tallyTable(dead, kinds)}

**Rolling update**: every pod is replaced, one more than wanted at a time. An old one keeps serving for 1 s, then closes its connections
with their next answer, idle ones at once. evenkeel watches EndpointSlices; the loop and BalancedPool ask for the list once a second,
as does the dns interceptor; the proxies reload at once; "balanced per connection" opens its connections to ready pods only.

${tallyTable(rolled, kinds)}`;
}

/** @param {readonly HttpClientKind[]} kinds */
function withPeakEwma(kinds) {
  return kinds.flatMap((kind) => (kind.name === names.ours ? [kind, peakEwmaKind] : [kind]));
}

/**
 * @param {SceneTallies} tallies
 * @param {readonly HttpClientKind[]} kinds
 * @param {{ title: string, of: (tally: import('./http-scenes.mjs').SceneTally) => string }} last what the last column says
 */
function tallyTable(tallies, kinds, last = { title: 'most failures said', of: ({ reason }) => reason ?? '' }) {
  const rows = kinds.map(({ name }) => {
    const tally = /** @type {import('./http-scenes.mjs').SceneTally} */ (tallies.get(name));
    const { sent, failed, p50, p90, p99, p999 } = tally;
    const latencies = [p50, p90, p99, p999].map((ms) => ms.toFixed(1));
    const remark = tally.lateMs > TOO_LATE_MS ? `${last.of(tally)} (machine too busy)`.trim() : last.of(tally);
    return [name, grouped(sent), grouped(failed), ...latencies, remark];
  });
  return table(['', 'requests', 'failed', 'p50 ms', 'p90 ms', 'p99 ms', 'p99.9 ms', last.title], rows, [7]);
}

/** @param {SceneTallies} dead @param {SceneTallies} rolled */
function picture(dead, rolled) {
  return barChart({
    title: 'Requests that failed when a pod died, and during a rolling update',
    subtitle: `GETs at ${grouped(PER_SECOND)} a second. Less is better.`,
    rows: [...dead].map(([label, { failed }]) => {
      const more = rolled.get(label)?.failed ?? 0;
      return { label, value: failed + more, note: `${failed} + ${more}`, ours: label.includes('evenkeel') };
    }),
  });
}
