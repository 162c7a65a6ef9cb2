/**
 * The simulator by hand.
 *
 *   node test/simulation/run.mjs                        prints all tables but `even` and draws docs/images/simulation-*.svg
 *   node test/simulation/run.mjs fleet [scenario …]     only what a fleet must reach, beside kube-proxy and one ideal queue: a minute
 *   node test/simulation/run.mjs balance [scenario …]   only how ways to balance compare, in all scenarios or those that are named
 *   node test/simulation/run.mjs even [scenario …]      only what the default picker must reach: how even its calls are, beside chance
 *     --rows=Prequal,default                            only the rows whose names contain one of these
 *     --seeds=10                                        so many seeds (three by default)
 *     --effort=0.3                                      a third of the calls
 *   node test/simulation/run.mjs map                    the default against others for 1 to 500 clients, 3 to 100 pods, 50 to 90 %:
 *                                                       tables
 *     --clients=1,20 --pods=3,30 --loads=0.5,0.9        only these
 *     --shape=bursty                                    another kind of fleet; --shape=none lists them
 *     --reports                                         servers report their load
 *     --image=map.svg                                   draws a picture of them, too
 *   node test/simulation/run.mjs pickers [part …]       all tables but those, or some: one-client, many-clients, profiles, faults, slow, overload
 *   node test/simulation/run.mjs list                   only the names of the scenarios
 *   node test/simulation/run.mjs --proof                the tests at full counts: five seeds, a few minutes
 *   node test/simulation/run.mjs --scale                1,000 clients and 1,000 servers, and how long that takes
 */
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { importSources } from '../../scripts/build.mjs';
import { bootstrapMedian } from '../bench/lib/statistics.mjs';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const usage =
  'Usage: run.mjs [--proof | --scale | list | pickers [part …] | fleet [scenario …] | balance [scenario …] | even [scenario …] | map [--clients=n,…] [--pods=n,…] [--loads=n,…] [--shape=name] [--reports] [--image=file]] [--rows=name,…] [--seeds=n] [--effort=n]';

/** What the command line says; undefined if it makes no sense. */
function given() {
  const text = { type: /** @type {const} */ ('string') };
  const flag = { type: /** @type {const} */ ('boolean') };
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        ...{ proof: flag, scale: flag, rows: text, seeds: text, effort: text },
        ...{ clients: text, pods: text, loads: text, shape: text, reports: flag, image: text },
      },
    });
    const [what, ...scenarios] = positionals;
    const isKnown = what === undefined || ['fleet', 'balance', 'even', 'map', 'pickers', 'list'].includes(what);
    const takesScenarios = what !== undefined && ['fleet', 'balance', 'even', 'pickers'].includes(what);
    const seeds = Number(values.seeds ?? 3);
    const effort = Number(values.effort ?? 1);
    if (!isKnown || (scenarios.length > 0 && !takesScenarios)) return undefined;
    if (!Number.isInteger(seeds) || seeds < 1 || !(effort > 0)) return undefined;
    const numbers = (/** @type {string | undefined} */ list, /** @type {number[]} */ usual) =>
      list === undefined ? usual : list.split(',').map(Number);
    const map = {
      clients: numbers(values.clients, [1, 3, 6, 20, 100, 500]),
      pods: numbers(values.pods, [3, 12, 30, 100]),
      loads: numbers(values.loads, [0.5, 0.7, 0.9]),
      shape: values.shape ?? 'plain',
      reports: values.reports ?? false,
      image: values.image,
    };
    if (Object.values(map).some((value) => Array.isArray(value) && value.some((one) => !(one > 0)))) return undefined;
    return { ...values, what, scenarios, seeds, effort, map, contenders: values.rows?.split(',') ?? [] };
  } catch {
    return undefined;
  }
}

const asked = given();
if (asked === undefined) {
  console.error(usage);
  process.exit(2);
}
const { what, proof, scale: isScale, ...options } = asked;
if (proof) {
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  const args = [vitest, 'run', '--project=simulation', '--testTimeout=600000'];
  const env = { ...process.env, EVENKEEL_PROOF: '1' };
  spawn(process.execPath, args, { cwd: root, stdio: 'inherit', env }).on('close', (code) => {
    process.exitCode = code ?? 1;
  });
} else if (isScale && process.execArgv.length === 0) {
  // A million connections take 4 GiB; with V8's small space for new objects it would copy a part of them again and again.
  const memory = ['--max-old-space-size=8192', '--initial-old-space-size=7000', '--max-semi-space-size=128'];
  const self = fileURLToPath(import.meta.url);
  spawn(process.execPath, [...memory, self, '--scale'], { cwd: root, stdio: 'inherit' }).on('close', (code) => {
    process.exitCode = code ?? 1;
  });
} else {
  // Bundled, because a million calls through the loader of the test runner take half as long again.
  const folder = 'test/simulation';
  const [{ scale }, { report }, balance, { reportMap }] = await importSources(
    `${folder}/scale.ts`,
    `${folder}/report.ts`,
    `${folder}/balance-report.ts`,
    `${folder}/map-report.ts`,
  );
  const images = join(root, 'docs/images');
  const isAll = options.scenarios.length === 0 && options.contenders.length === 0;
  if (isScale) await scale();
  else if (what === 'list') {
    const all = new Map(
      [...balance.fleetScenarios, ...balance.balanceScenarios, ...balance.evenScenarios].map(({ name, title }) => [
        name,
        title,
      ]),
    );
    for (const [name, title] of all) console.log(`${name}: ${title}`);
  } else if (what === 'map') {
    const { map, seeds, effort } = options;
    await reportMap({ ...map, seeds, effort, interval: bootstrapMedian });
  } else {
    if (what === undefined || what === 'fleet') await balance.reportFleet(options);
    if (what === 'even') await balance.reportEven(options);
    if (what === undefined || what === 'pickers') await report(images, options.scenarios);
    if (what === undefined || what === 'balance') {
      await balance.reportBalance({ ...options, images: isAll ? images : undefined });
    }
  }
}
