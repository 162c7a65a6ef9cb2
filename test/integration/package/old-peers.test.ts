import { mkdir, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { peerRanges } from '../../../src/runtime/peer-version.js';
import { Consumer, runProgram } from '../../support/programs/consumer.js';

/** Has the names that evenkeel imports; without them no import would get as far as the check. */
const installed = createRequire(import.meta.url).resolve;

let consumer: Consumer;
beforeAll(async () => {
  consumer = await Consumer.create(inject('installed'));
});
afterAll(() => consumer.remove());

it.each([
  ['undici', 'undici', '6.21.3', '^7.0.0 || ^8.0.0', 'undici@7'],
  ['ws', 'ws', '7.5.10', '^8.0.0', 'ws@8'],
  ['mysql2', 'mysql2', '2.3.3', '^3.9.0', 'mysql2@3'],
  ['grpc-js', '@grpc/grpc-js', '1.12.6', '>=1.14 <2', '@grpc/grpc-js@1'],
  ['pg', 'pg', '7.18.2', '^8.11.0', 'pg@8'],
  ['opentelemetry', '@opentelemetry/api', '1.8.0', '^1.9.0', '@opentelemetry/api@1'],
])(
  'evenkeel/%s refuses %s %s by name, before anything of it is loaded',
  async (entryPoint, peer, version, range, remedy) => {
    const folder = join(consumer.folder, 'node_modules', peer);
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, 'package.json'), JSON.stringify({ name: peer, version, main: 'index.js' }));
    await writeFile(
      join(folder, 'index.js'),
      `console.log('loaded'); module.exports = require(${JSON.stringify(installed(peer))});`,
    );
    const caught = `import('evenkeel/${entryPoint}').catch(({ code, message }) => console.log(code, message));`;
    const { stdout, stderr } = await consumer.run(`${entryPoint}.mjs`, caught);
    expect(stderr).toBe('');
    expect(stdout).toBe(
      `EVENKEEL_OPTION evenkeel/${entryPoint} does not work with ${peer} ${version}, it needs ${range}. Install one that does: npm install ${remedy}\n`,
    );
  },
);

it('npm installs evenkeel beside older versions of every peer', async () => {
  const folder = join(consumer.folder, 'old');
  const peers = Object.keys(peerRanges);
  for (const peer of peers) {
    await mkdir(join(folder, 'old', peer), { recursive: true });
    await writeFile(join(folder, 'old', peer, 'package.json'), JSON.stringify({ name: peer, version: '0.0.1' }));
  }
  const dependencies = Object.fromEntries(peers.map((peer) => [peer, `file:old/${peer}`]));
  await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'old', private: true, dependencies }));
  const flags = ['--offline', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  expect(await runProgram('npm', ['install', ...flags, inject('tarball')], folder)).toMatchObject({
    code: 0,
    stderr: '',
  });
});
