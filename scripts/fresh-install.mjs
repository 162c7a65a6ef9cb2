/**
 * Installs the packed package with npm, pnpm and yarn, each in an empty folder and from the registry in use, and runs a program that
 * imports and requires it, calls a server through it, and runs the command.
 *
 *   npm run proof -- install              all of them; pnpm and yarn come from the registry too
 *   npm run proof -- install pnpm         one
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { npm, pack } from './pack.mjs';

const NPM = ['npm'];
const PNPM = ['npx', '--yes', 'pnpm@10'];
const YARN = ['npx', '--yes', '-p', '@yarnpkg/cli-dist@4', 'yarn'];

/** How each installs a tarball and undici beside it, and runs a program of the folder. */
const managers = {
  npm: { install: [...NPM, 'install', '--no-audit', '--no-fund'], run: ['node'] },
  pnpm: { install: [...PNPM, 'add'], run: ['node'] },
  'yarn with node_modules': {
    install: [...YARN, 'add'],
    run: ['node'],
    files: { '.yarnrc.yml': 'nodeLinker: node-modules\n' },
  },
  'yarn with Plug’n’Play': {
    install: [...YARN, 'add'],
    run: [...YARN, 'node'],
    files: { '.yarnrc.yml': 'nodeLinker: pnp\n' },
  },
};

const program = `
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { createBalancer, staticEndpoints } from 'evenkeel';
import { createFetch } from 'evenkeel/undici';

const required = createRequire(import.meta.url)('evenkeel');
if (required.createBalancer !== createBalancer) throw new Error('require and import give two copies');
const server = createServer((_request, response) => response.end('here')).listen(0, '127.0.0.1');
await new Promise((resolve) => server.once('listening', resolve));
const { port } = server.address();
const fetchOrders = createFetch('http://orders.shop:8080', { resolver: staticEndpoints([{ address: '127.0.0.1', port }]) });
console.log(await (await fetchOrders('/')).text());
await fetchOrders.close();
server.close();
`;

const wanted = process.argv.slice(2);
const out = mkdtempSync(join(tmpdir(), 'evenkeel-install-'));
const { registry } = JSON.parse(npm(['config', 'list', '--json']));
let failed = 0;
try {
  const { tarball } = pack(out);
  for (const [name, { install, run, files = {} }] of Object.entries(managers)) {
    if (wanted.length > 0 && !wanted.some((each) => name.startsWith(each))) continue;
    const folder = mkdtempSync(join(out, 'project-'));
    writeFileSync(join(folder, 'package.json'), '{ "name": "fresh", "private": true, "type": "module" }\n');
    for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text);
    // An empty lockfile makes the folder a project of its own for yarn.
    if (name.startsWith('yarn')) writeFileSync(join(folder, 'yarn.lock'), '');
    writeFileSync(join(folder, 'main.mjs'), program);
    const undici = process.versions.node.startsWith('20.') ? 'undici@7' : 'undici';
    const tar = name.startsWith('yarn') ? `evenkeel@file:${tarball}` : tarball;
    const steps = [
      [...install, tar, undici],
      [...run, 'main.mjs'],
    ];
    const results = steps.map((step) => inFolder(folder, step));
    const answer = results.find(({ status }) => status !== 0) ?? /** @type {typeof results[number]} */ (results.at(-1));
    const ok = answer.status === 0 && answer.stdout.trim().endsWith('here');
    if (!ok) failed += 1;
    console.log(`${ok ? 'ok    ' : 'FAILED'}  ${name}`);
    if (!ok) console.log(`${answer.stdout}${answer.stderr}`);
  }
} finally {
  rmSync(out, { recursive: true, force: true });
}
process.exitCode = failed === 0 ? 0 : 1;

/** @param {string} folder @param {readonly string[]} command */
function inFolder(folder, [command = '', ...args]) {
  const env = {
    ...process.env,
    npm_config_registry: registry,
    YARN_NPM_REGISTRY_SERVER: registry.replace(/\/$/, ''),
    YARN_ENABLE_TELEMETRY: '0',
    YARN_ENABLE_IMMUTABLE_INSTALLS: 'false',
  };
  return spawnSync(command, args, { cwd: folder, env, encoding: 'utf8', shell: process.platform === 'win32' });
}
