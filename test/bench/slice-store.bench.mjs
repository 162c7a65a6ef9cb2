/**
 * What a change of one EndpointSlice costs, from the line on the wire to the published set, with 5,000 endpoints in 50
 * slices; and how often a storm of 1,000 changes a second is published.
 *
 *   node --expose-gc test/bench/slice-store.bench.mjs [--quick]
 */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { systemClock, systemRng } from 'evenkeel';
import { endpointSlices } from 'evenkeel/kubernetes';
import { FakeClock, seededRng } from 'evenkeel/testing';
import { importSources } from '../../scripts/build.mjs';
import { MIN_ROUNDS } from './lib/rounds.mjs';
import { bootstrapMedian, judgeLimit } from './lib/statistics.mjs';
import { table, withInterval } from './lib/table.mjs';

const [{ parseSlice }, { PublishedSet }, { parseWatchEvent }] = await importSources(
  'src/resolver/kubernetes/slices/endpoint-slice.ts',
  'src/resolver/kubernetes/slices/published-set.ts',
  'src/resolver/kubernetes/watch/watch-event.ts',
);
const quick = process.argv.includes('--quick');
const ROUNDS = quick ? 10 : MIN_ROUNDS;
const CHANGES = 20;
const SLICES = 50;
const MEMBERS = 100;
const STORM_SECONDS = quick ? 2 : 5;
const LIMIT_MS = 5;
const rng = seededRng(1);
const draw = (/** @type {number} */ below) => Math.floor(rng.next() * below);

/** @param {number} slice @param {number} member @param {number} generation @param {boolean} ready */
const endpoint = (slice, member, generation, ready = true) => ({
  addresses: [`10.${generation % 250}.${slice}.${member}`],
  conditions: { ready, serving: ready, terminating: false },
  nodeName: `node-${member % 20}`,
  zone: `zone-${member % 3}`,
  targetRef: {
    kind: 'Pod',
    name: `orders-${slice}-${member}-${generation}`,
    namespace: 'shop',
    uid: `${slice}-${member}-${generation}`,
  },
});

let version = 1;
/** @param {number} slice @param {any[]} endpoints */
const objectOf = (slice, endpoints) => ({
  kind: 'EndpointSlice',
  apiVersion: 'discovery.k8s.io/v1',
  metadata: {
    name: `orders-${slice}`,
    namespace: 'shop',
    resourceVersion: String(++version),
    labels: { 'kubernetes.io/service-name': 'orders' },
  },
  addressType: 'IPv4',
  endpoints,
  ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
});

const state = Array.from({ length: SLICES }, (_, slice) =>
  Array.from({ length: MEMBERS }, (_, member) => ({ generation: 0, ready: true, slice, member })),
);
const render = (/** @type {number} */ slice) =>
  objectOf(
    slice,
    /** @type {any[]} */ (state[slice]).map(({ member, generation, ready }) =>
      endpoint(slice, member, generation, ready),
    ),
  );

/** @type {Record<string, (members: any[]) => void>} */
const kinds = {
  'one pod turns unready or ready': (members) => {
    const one = members[draw(MEMBERS)];
    one.ready = !one.ready;
  },
  'one pod is replaced': (members) => {
    members[draw(MEMBERS)].generation += 1;
  },
  'all 100 pods are replaced': (members) => {
    for (const one of members) one.generation += 1;
  },
};

const clock = new FakeClock();
let published = 0;
const set = new PublishedSet(clock, () => {
  published += 1;
});
set.choose({
  families: ['IPv4'],
  ports: (/** @type {any} */ slice) => slice.ports,
  accepts: (/** @type {any} */ { unsafe }) => unsafe === undefined,
});
/** As the watch does it. @param {string} line */
function apply(line) {
  const event = parseWatchEvent(line);
  if (event.type !== 'put') throw new Error('not a slice');
  set.put(event.name, parseSlice(event.object, 'orders'));
  set.settle();
}
const lineOf = (/** @type {number} */ slice) => JSON.stringify({ type: 'MODIFIED', object: render(slice) });
for (let slice = 0; slice < SLICES; slice++) apply(lineOf(slice));
clock.advance(1_000);

/** CPU time of this process, which a busy neighbour does not lengthen. @type {Map<string, number[]>} */
const samples = new Map(Object.keys(kinds).map((kind) => [kind, []]));
for (let round = 0; round < ROUNDS + 3; round++) {
  for (const [kind, change] of Object.entries(kinds)) {
    let totalMs = 0;
    for (let index = 0; index < CHANGES; index++) {
      const slice = draw(SLICES);
      change(/** @type {any[]} */ (state[slice]));
      const line = lineOf(slice);
      const before = published;
      const begun = process.cpuUsage();
      apply(line);
      // What vanished leaves: the second publication a replacement costs.
      clock.advance(1_000);
      const { user, system } = process.cpuUsage(begun);
      totalMs += (user + system) / 1_000;
      if (published === before) throw new Error(`${kind}: nothing was published`);
    }
    if (round >= 3) samples.get(kind)?.push(totalMs / CHANGES);
  }
}

/** A storm over real sockets, with the real clock and the API server in a process of its own. */
async function storm() {
  const server = fork(fileURLToPath(new URL('lib/slice-storm.mjs', import.meta.url)), { execArgv: [] });
  /** @returns {Promise<any>} */
  const message = () => new Promise((resolve) => server.once('message', resolve));
  const { url } = await message();
  let updates = 0;
  const resolution = endpointSlices({ namespace: 'shop', service: 'orders', port: 'http', apiServer: url }).watch(
    { update: () => updates++, fail() {}, fresh() {} },
    { clock: systemClock, rng: systemRng, observer: {} },
  );
  while (updates === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  const ended = message();
  server.send({ seconds: STORM_SECONDS });
  const first = updates;
  const cpu = process.cpuUsage();
  const { written, seconds } = await ended;
  const { user, system } = process.cpuUsage(cpu);
  const perSecond = (updates - first) / seconds;
  resolution.close();
  server.disconnect();
  return { events: written / seconds, perSecond, cores: (user + system) / 1e6 / seconds };
}
const { events, perSecond, cores } = await storm();
// A machine that cannot write a thousand a second has shown nothing.
const verdict = perSecond > 20.5 ? 'falls short' : events < 900 ? 'undecided here' : 'holds';

const rows = [...samples].map(([kind, values]) => {
  const interval = bootstrapMedian(values, () => rng.next());
  return [kind, `≤ ${LIMIT_MS} ms`, `${withInterval(interval)} ms`, judgeLimit(interval, LIMIT_MS)];
});
console.log(`## EndpointSlices

A change of one slice among ${SLICES} (${SLICES * MEMBERS} endpoints), from its line of ${(lineOf(0).length / 1024).toFixed(0)} KiB to the published set, in CPU time; ${ROUNDS} rounds of ${CHANGES} changes.

${table(['change', 'wanted', 'median per change [95 %]', 'verdict'], rows, [3])}

A storm over sockets, each event the replacement of one pod, for ${STORM_SECONDS} s:

${table(
  ['events/s written', 'cores used by the resolver', 'publications/s wanted', 'measured', 'verdict'],
  [[events.toFixed(0), cores.toFixed(2), '≤ 20', perSecond.toFixed(1), verdict]],
  [4],
)}
`);
