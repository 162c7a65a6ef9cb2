/**
 * Real programs, unchanged, in front of a Service: each is started as it is, behind a stand-in for kube-proxy, and then by the same
 * command with `--require evenkeel/register`. Both times it gets the same requests, and every pod is replaced under load. Compared are
 * the answers, byte for byte, how even the pods were used, and what failed.
 *
 *   npm run proof -- programs                 all of them; Linux, npm with a registry, 2 GB in the folder for temporary files
 *   npm run proof -- programs axios next      those whose names begin so
 *
 * The programs are installed once, outside of the repository, into <temporary files>/evenkeel-programs.
 */
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { npm, pack } from '../../../../scripts/pack.mjs';
import { table } from '../../../bench/lib/table.mjs';
import { freePort } from '../../../support/programs/free-port.mjs';
import { Cluster, pause } from './cluster.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const home = join(tmpdir(), 'evenkeel-programs');

/** Requests before anything is counted, those that are compared, how many run at once, and how long one may take. */
const WARM_UP = 40;
const REQUESTS = 600;
const AT_ONCE = 10;
const TIMEOUT_MS = 10_000;
/** How long a program may take to listen. */
const START_MS = 120_000;

/** Next.js needs no more than the build says; the standalone server looks for these beside it. */
const nextStandalone = join('.next', 'standalone', 'server.js');

/** What is installed into one folder, and the programs there; `isLeft`: register does not balance it, and lists it. */
const projects = {
  clients: {
    files: ['clients.mjs', 'orders.proto'],
    packages: {
      undici6: 'npm:undici@6',
      undici7: 'npm:undici@7',
      undici8: 'npm:undici@8',
      axios: '1',
      got: '14',
      'node-fetch': '3',
      superagent: '10',
      openai: '6',
      '@aws-sdk/client-s3': '3',
      '@elastic/elasticsearch': '9',
      'nice-grpc': '2',
      '@grpc/grpc-js': '1',
      '@grpc/proto-loader': '0.8',
      eventsource: '4',
      ws: '8',
      '@kubernetes/client-node': '1',
      esbuild: '0.25',
    },
    prepare: [
      [
        'npx',
        'esbuild',
        'clients.mjs',
        '--bundle',
        '--minify',
        '--platform=node',
        '--format=esm',
        '--outfile=bundled.mjs',
        '--external:@aws-sdk/*',
        '--external:@elastic/*',
        '--external:@grpc/*',
        '--external:@kubernetes/*',
        '--external:nice-grpc',
        '--external:openai',
        "--banner:js=import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);",
      ],
    ],
    programs: {
      fetch: { args: ['clients.mjs', 'fetch'] },
      'undici 6, 7 and 8 in one app': {
        of: ['undici6', 'undici7', 'undici8'],
        args: ['clients.mjs', 'undici'],
        needs: 22,
      },
      'node:http': { args: ['clients.mjs', 'node:http'] },
      ...Object.fromEntries(
        [
          'axios',
          'got',
          'node-fetch',
          'superagent',
          'openai',
          '@aws-sdk/client-s3',
          '@elastic/elasticsearch',
          'nice-grpc',
          'eventsource',
          'ws',
        ].map((name) => [name, { of: [name], args: ['clients.mjs', name] }]),
      ),
      'axios, bundled': { of: ['axios'], args: ['bundled.mjs', 'axios'] },
      'undici, bundled': { of: ['undici6', 'undici7', 'undici8'], args: ['bundled.mjs', 'undici'], needs: 22 },
      'ws, bundled and minified': { of: ['ws'], args: ['bundled.mjs', 'ws'] },
      'WebSocket of Node': { args: ['clients.mjs', 'WebSocket of Node'], needs: 22 },
      'EventSource of Node': { args: ['--experimental-eventsource', 'clients.mjs', 'EventSource of Node'], needs: 22 },
      '@kubernetes/client-node': { of: ['@kubernetes/client-node'], args: ['clients.mjs', '@kubernetes/client-node'] },
    },
  },
  proxies: {
    files: ['proxies.mjs'],
    packages: { express: '5', 'http-proxy-middleware': '3', fastify: '5', '@fastify/reply-from': '12' },
    programs: Object.fromEntries(
      [
        'http-proxy-middleware',
        '@fastify/reply-from',
        '@fastify/reply-from, http: {}',
        '@fastify/reply-from, globalAgent: true',
      ].map((name) => [
        name,
        { of: [name.split(',')[0]], args: ['proxies.mjs', name], isLeft: name === '@fastify/reply-from' },
      ]),
    ),
  },
  nest: {
    files: ['nest.mjs', 'orders.proto'],
    packages: {
      '@nestjs/common': '11',
      '@nestjs/core': '11',
      '@nestjs/platform-express': '11',
      '@nestjs/microservices': '11',
      '@nestjs/axios': '4',
      axios: '1',
      rxjs: '7',
      'reflect-metadata': '0.2',
      '@grpc/grpc-js': '1',
      '@grpc/proto-loader': '0.8',
    },
    programs: {
      'Nest, HttpModule': { of: ['@nestjs/core', '@nestjs/axios'], args: ['nest.mjs', 'http'] },
      'Nest, gRPC client': { of: ['@nestjs/microservices', '@grpc/grpc-js'], args: ['nest.mjs', 'grpc'] },
    },
  },
  gateway: {
    files: ['gateway.mjs'],
    packages: { '@apollo/gateway': '2', '@apollo/server': '5', graphql: '16' },
    programs: {
      'Apollo Gateway': { of: ['@apollo/gateway'], args: ['gateway.mjs'], isLeft: true },
      'Apollo Gateway, fetcher: fetch': { of: ['@apollo/gateway'], args: ['gateway.mjs', 'fetch'] },
    },
  },
  next: {
    files: ['next/app', 'next/next.config.mjs'],
    packages: { next: '16', react: '19', 'react-dom': '19' },
    prepare: [['npx', 'next', 'build']],
    programs: {
      'Next.js, server component': {
        of: ['next'],
        args: ['node_modules/next/dist/bin/next', 'start', '--hostname', '127.0.0.1'],
        path: '/orders/',
      },
      'Next.js, route handler': {
        of: ['next'],
        args: ['node_modules/next/dist/bin/next', 'start', '--hostname', '127.0.0.1'],
        path: '/api/orders/',
      },
      'Next.js, standalone': { of: ['next'], args: [nextStandalone], path: '/orders/' },
    },
  },
};

/** Installs what a project needs, with evenkeel as it is packed, unless that is there already. @returns its folder */
function install(name, { files, packages, prepare = [] }, tarball) {
  const folder = join(home, name);
  mkdirSync(folder, { recursive: true });
  for (const file of files) cpSync(join(here, file), join(folder, file.replace(/^next\//, '')), { recursive: true });
  const manifest = { name: `programs-${name}`, private: true, type: 'module', dependencies: packages };
  const text = `${JSON.stringify(manifest, null, 2)}\n`;
  const marker = join(folder, 'installed.json');
  if (!existsSync(marker) || readFileSync(marker, 'utf8') !== text) {
    writeFileSync(join(folder, 'package.json'), text);
    npm(['install', '--no-audit', '--no-fund', '--no-package-lock'], folder);
    for (const command of prepare) inFolder(folder, command);
    writeFileSync(marker, text);
  }
  // Always as it is now; undici beside it is what its guide says to install.
  npm(['install', '--no-save', '--no-audit', '--no-fund', '--no-package-lock', tarball, 'undici@7'], folder);
  return folder;
}

function inFolder(folder, [command, ...args]) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: folder, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed in ${folder}: ${stdout}${stderr}`);
}

/** What a library's installed version is. */
const versionOf = (folder, name) =>
  JSON.parse(readFileSync(join(folder, 'node_modules', name, 'package.json'), 'utf8')).version;

/** Runs a program in front of pods of its own. */
async function run({ args, path = '/' }, folder, isRegistered) {
  const cluster = await Cluster.start();
  const port = await freePort();
  const required = [join(here, 'in-cluster.cjs'), ...(isRegistered ? ['evenkeel/register'] : [])];
  const child = spawn(process.execPath, [...required.flatMap((file) => ['--require', file]), ...args], {
    cwd: folder,
    env: {
      ...process.env,
      ...cluster.env,
      NODE_OPTIONS: '',
      NODE_NO_WARNINGS: '1',
      NODE_ENV: 'production',
      NEXT_TELEMETRY_DISABLED: '1',
      HOSTNAME: '127.0.0.1',
      PORT: String(port),
      ORDERS: `http://orders.shop:${cluster.ports.http}`,
      ORDERS_GRPC: `orders.shop:${cluster.ports.grpc}`,
      API_SERVER: cluster.apiUrl,
      API_TOKEN: cluster.token,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (chunk) => {
    stderr += chunk;
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  try {
    await listening(port, child, () => stderr);
    const ask = (id) => answerOf(`http://127.0.0.1:${port}${path}${id}`);
    const began = performance.now();
    await ask(0);
    const firstMs = performance.now() - began;
    await inParallel(WARM_UP, ask);
    const before = await cluster.counts();
    const answers = await inParallel(REQUESTS, ask);
    const after = await cluster.counts();
    const shares = [...after].map(([pod, count]) => count - (before.get(pod) ?? 0));
    const mean = shares.reduce((sum, share) => sum + share, 0) / shares.length;
    // While every pod is replaced.
    let isRolled = false;
    let sent = 0;
    const failures = new Map();
    const one = async () => {
      while (!isRolled) {
        const id = sent++ % REQUESTS;
        const answer = await ask(id);
        // What failed before, and was counted then, is no measure.
        const isSame = answer.text === answers[id].text || answers[id].status !== 200;
        if (answer.status === 200 && isSame) continue;
        const why = answer.status === 200 ? 'another answer' : answer.text.slice(0, 80);
        failures.set(why, (failures.get(why) ?? 0) + 1);
      }
    };
    const load = Array.from({ length: AT_ONCE }, one);
    await cluster.roll();
    await pause(500);
    isRolled = true;
    await Promise.all(load);
    return { answers, maxToMean: Math.max(...shares) / mean, sent, failures, firstMs, stderr };
  } finally {
    child.kill();
    await ended;
    await cluster.stop();
  }
}

/** @returns {Promise<{ status: number, type: string | undefined, text: string }>} */
function answerOf(url) {
  return new Promise((resolve) => {
    const failed = (error) => resolve({ status: 0, type: undefined, text: String(error.code ?? error.message) });
    const request = get(url, { timeout: TIMEOUT_MS }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk) => {
        text += chunk;
      });
      response.on('error', failed);
      response.on('end', () =>
        resolve({ status: Number(response.statusCode), type: response.headers['content-type'], text }),
      );
    });
    request.on('timeout', () => request.destroy(new Error(`no answer in ${TIMEOUT_MS} ms`)));
    request.on('error', failed);
  });
}

/** Asks for the orders 0 to `count`, some at once; resolves with the answers by order. */
async function inParallel(count, ask) {
  const answers = Array.from({ length: count });
  let next = 0;
  const one = async () => {
    while (next < count) {
      const id = next++;
      answers[id] = await ask(id);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  return answers;
}

async function listening(port, child, said) {
  const end = performance.now() + START_MS;
  while (performance.now() < end && child.exitCode === null) {
    const isOpen = await new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false));
      socket.on('connect', () => socket.destroy());
    });
    if (isOpen) return;
    await pause(100);
  }
  throw new Error(`it does not listen: ${said()}`);
}

const sumOf = (failures) => [...failures.values()].reduce((sum, count) => sum + count, 0);
const wanted = process.argv.slice(2);
const isWanted = (name) =>
  wanted.length === 0 || wanted.some((one) => name.toLowerCase().startsWith(one.toLowerCase()));
const out = mkdtempSync(join(tmpdir(), 'evenkeel-packed-'));
const rows = [];
const notes = [];
let broken = 0;
try {
  const { tarball } = pack(out);
  for (const [projectName, project] of Object.entries(projects)) {
    const chosen = Object.entries(project.programs).filter(
      ([name, { needs = 0 }]) => isWanted(name) && Number.parseInt(process.versions.node, 10) >= needs,
    );
    if (chosen.length === 0) continue;
    process.stderr.write(`installing ${projectName}\n`);
    const folder = install(projectName, project, tarball);
    for (const [name, program] of chosen) {
      process.stderr.write(`${name}: `);
      const results = [];
      for (const isRegistered of [false, true]) results.push(await run(program, folder, isRegistered));
      const [stock, ours] = results;
      const differing = stock.answers.filter(
        ({ status, type, text }, id) =>
          status !== 200 ||
          status !== ours.answers[id].status ||
          type !== ours.answers[id].type ||
          text !== ours.answers[id].text,
      ).length;
      const version = (program.of ?? []).map((one) => versionOf(folder, one)).join(', ') || process.version.slice(1);
      const ofPods = (ratio) => (Number.isNaN(ratio) ? 'none' : ratio.toFixed(2));
      const row = [
        program.isLeft ? `${name} (not balanced)` : name,
        version,
        differing === 0 ? 'the same' : `${differing} differ`,
        ofPods(stock.maxToMean),
        ofPods(ours.maxToMean),
        `${sumOf(stock.failures)} of ${stock.sent}`,
        `${sumOf(ours.failures)} of ${ours.sent}`,
        `${Math.round(stock.firstMs)}, ${Math.round(ours.firstMs)}`,
      ];
      rows.push(row);
      // Those that are left alone fail as often as before.
      if (differing > 0 || (sumOf(ours.failures) > 0 && !program.isLeft)) broken++;
      for (const [kind, { answers, failures, stderr }] of Object.entries({ stock, register: ours })) {
        for (const { status, text } of answers) {
          if (status !== 200) notes.push(`${name}, ${kind}, compared: ${status} ${text.slice(0, 80)}`);
        }
        for (const [why, count] of failures) notes.push(`${name}, ${kind}: ${count} × ${why}`);
        if (stderr !== '') notes.push(`${name}, ${kind}, said: ${stderr.trim().slice(0, 300)}`);
      }
      process.stderr.write(`${row.slice(2).join(' | ')}\n`);
    }
  }
} finally {
  rmSync(out, { recursive: true, force: true });
}
const head = [
  'program',
  'version',
  'answers',
  'max/mean stock',
  'with register',
  'failed stock',
  'with register',
  'first answer, ms',
];
console.log(table(head, rows));
for (const note of notes) console.log(note);
process.exitCode = broken === 0 ? 0 : 1;
