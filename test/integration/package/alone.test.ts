import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { Consumer } from '../../support/programs/consumer.js';
import { sourcesIn } from './sources-in.js';

/** Prints every module Node loads, one per line, to stderr. */
const traceLoads = `--import=data:text/javascript,${encodeURIComponent(`
  import { register } from 'node:module';
  register('data:text/javascript,' + encodeURIComponent(
    "import { writeSync } from 'node:fs'; export const load = (url, context, next) => { writeSync(2, url + '\\\\n'); return next(url, context); };"));
`)}`;

/** One call through a balancer over a transport that is no network at all. */
const oneCall = `
const connection = { handle: 'hello', capacity: Infinity, closed: new Promise(() => {}), close: async () => {} };
const balancer = createBalancer({
  resolver: staticEndpoints([{ address: '10.0.0.1', port: 80 }, { address: '10.0.0.2', port: 80 }]),
  transport: { connect: async () => connection },
});
balancer.run((handle) => handle).then(async (answer) => {
  await balancer.close();
  console.log(answer);
});`;

const manifest = JSON.parse(await readFile(join(import.meta.dirname, '../../../package.json'), 'utf8'));
const entryPoints: string[] = Object.keys(manifest.exports)
  .map((entryPoint) => entryPoint.replace(/^\.\/?/, ''))
  .filter((entryPoint) => entryPoint !== '' && entryPoint !== 'package.json');
/** Entry points named after the peer they fit, with that peer. */
const fitted = Object.keys(manifest.peerDependencies)
  .map((peer): [string, string] => [peer.split('/').at(-1) ?? peer, peer])
  // It is given clients, and imports none.
  .filter(([entryPoint]) => entryPoint !== 'redis' && entryPoints.includes(entryPoint));
/** Entry points that need several. */
const needsSeveral: [string, string[]][] = [['opentelemetry', ['@opentelemetry/api']]];
const free = entryPoints.filter((entryPoint) => ![...fitted, ...needsSeveral].some(([name]) => name === entryPoint));

describe('installed without any peer', () => {
  let consumer: Consumer;
  beforeAll(async () => {
    consumer = await Consumer.create(inject('installed'));
  });
  afterAll(() => consumer.remove());

  test('installs nothing else', async () => {
    const names = await readdir(join(consumer.folder, 'node_modules'));
    expect(names.filter((name) => !name.startsWith('.'))).toEqual(['evenkeel']);
  });

  test('import: the root entry point works', async () => {
    const source = `import { createBalancer, staticEndpoints } from 'evenkeel';${oneCall}`;
    expect(await consumer.run('import.mjs', source)).toEqual({ code: 0, stdout: 'hello\n', stderr: '' });
  });

  test('require: the root entry point works, without flag or warning', async () => {
    const source = `const { createBalancer, staticEndpoints } = require('evenkeel');${oneCall}`;
    expect(await consumer.run('require.cjs', source)).toEqual({ code: 0, stdout: 'hello\n', stderr: '' });
  });

  test('the root entry point loads neither an adapter nor the Kubernetes client nor the test tools', async () => {
    const { code, stderr } = await consumer.run('trace.mjs', `import 'evenkeel';`, [traceLoads]);
    const loaded = stderr.split('\n').filter((line) => line.includes('/evenkeel/dist/'));
    expect(code, stderr).toBe(0);
    const sources = await Promise.all(loaded.map(async (url) => sourcesIn(await readFile(new URL(url), 'utf8'))));
    expect(sources.flat()).toContain('src/balancer/balancer.ts');
    expect(
      sources.flat().filter((file) => /^src\/(adapter|opentelemetry|testing|cli|resolver\/kubernetes)\//.test(file)),
    ).toEqual([]);
  });

  test.each(free)('./%s needs no peer', async (entryPoint) => {
    const source = `import * as entry from 'evenkeel/${entryPoint}'; console.log(Object.keys(entry).length > 0);`;
    expect(await consumer.run('entry.mjs', source)).toEqual({ code: 0, stdout: 'true\n', stderr: '' });
  });

  test.each(fitted)("./%s fails with Node's own message, which names %s", async (entryPoint, peer) => {
    const source = `import('evenkeel/${entryPoint}').catch((error) => console.log(error.code, error.message));`;
    const { stdout } = await consumer.run('peer.mjs', source);
    expect(stdout).toMatch(/^ERR_MODULE_NOT_FOUND /);
    expect(stdout).toContain(`Cannot find package '${peer}'`);
  });

  test.each(needsSeveral)("./%s fails with Node's own message, which names one of %s", async (entryPoint, peers) => {
    const source = `import('evenkeel/${entryPoint}').catch((error) => console.log(error.code, error.message));`;
    const { stdout } = await consumer.run('peer.mjs', source);
    expect(stdout).toMatch(/^ERR_MODULE_NOT_FOUND /);
    expect(peers.some((peer) => stdout.includes(`Cannot find package '${peer}'`))).toBe(true);
  });
});

describe.each([...fitted, ...needsSeveral])('./%s installed with only %s', (entryPoint, peers) => {
  let consumer: Consumer;
  beforeAll(async () => {
    consumer = await Consumer.create(inject('installed'), [peers].flat());
  });
  afterAll(() => consumer.remove());

  test('loads', async () => {
    const source = `import * as entry from 'evenkeel/${entryPoint}'; console.log(Object.keys(entry).length > 0);`;
    expect(await consumer.run('entry.mjs', source)).toEqual({ code: 0, stdout: 'true\n', stderr: '' });
  });
});
