/**
 * HAProxy and nginx as local proxies, the way a sidecar or an ingress stands in front of pods: one worker each, least
 * connections, keep-alive on both sides, no access log, files in a folder of its own, never as root. Told to reload when the pods change, as a controller would.
 */
import { fork, spawnSync } from 'node:child_process';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { connect as connectSocket, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findCommand, installHint, systemPackages } from '../../../scripts/system-packages.mjs';
import { give, unprivileged } from '../../support/programs/unprivileged.mjs';
import { pause } from './pods.mjs';

/** @typedef {'http' | 'grpc'} Protocol what they speak on both sides: HTTP/1.1, or gRPC over HTTP/2 without TLS */
/** @typedef {import('./pods.mjs').Address} Address */

/**
 * @typedef {object} ProxyKind
 * @property {string} name as in `systemPackages`
 * @property {NodeJS.Signals} reload
 * @property {(command: string, config: string, folder: string) => string[]} start command and arguments
 * @property {(port: number, pods: readonly Address[], protocol: Protocol, folder: string) => string} config
 */

/** Streams may be quiet for longer than requests. */
const STREAM_TIMEOUT = '1h';

/** @type {ProxyKind} */
const haproxy = {
  name: 'HAProxy',
  // The master starts a new worker, which takes over the listening socket.
  reload: 'SIGUSR2',
  start: (command, config) => [command, '-W', '-q', '-f', config],
  config: (port, pods, protocol, folder) => `global
  nbthread 1
  stats socket ${folder}/haproxy.sock mode 600 level admin expose-fd listeners
  maxconn 4000
  hard-stop-after 10s
defaults
  mode http
  timeout connect 2s
  timeout client ${protocol === 'grpc' ? STREAM_TIMEOUT : '60s'}
  timeout server ${protocol === 'grpc' ? STREAM_TIMEOUT : '60s'}
  option http-keep-alive
  option redispatch
  retries 3
frontend service
  bind 127.0.0.1:${port}${protocol === 'grpc' ? ' proto h2' : ''}
  default_backend pods
backend pods
  balance leastconn
  http-reuse always
${pods.map(({ address, port: at }, index) => `  server pod${index} ${address}:${at} check inter 1s${protocol === 'grpc' ? ' proto h2' : ''}`).join('\n')}
`,
};

/** @type {ProxyKind} */
const nginx = {
  name: 'nginx',
  reload: 'SIGHUP',
  start: (command, config, folder) => [command, '-p', folder, '-e', 'stderr', '-c', config],
  config: (port, pods, protocol, folder) => `daemon off;
worker_processes 1;
error_log stderr crit;
pid ${folder}/nginx.pid;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  keepalive_requests 1000000000;
  upstream pods {
    least_conn;
${pods.map(({ address, port: at }) => `    server ${address}:${at};`).join('\n')}
    keepalive 64;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${port}${protocol === 'grpc' ? ' http2' : ''};
    location / {
      ${protocol === 'grpc' ? `grpc_pass grpc://pods;\n      grpc_read_timeout ${STREAM_TIMEOUT};` : 'proxy_pass http://pods;\n      proxy_http_version 1.1;\n      proxy_set_header Connection "";'}
    }
  }
}
`,
};

const kinds = [haproxy, nginx];

/** @param {string} name */
const packageOf = (name) =>
  /** @type {typeof systemPackages[number]} */ (systemPackages.find((wanted) => wanted.name === name));

/** @param {string} name */
const path = (name) => findCommand(packageOf(name).commands);

/** One line for each that is not installed, with the command that would change that. */
export const missingProxies = kinds
  .filter(({ name }) => path(name) === undefined)
  .map(({ name }) => `${name} is not installed, so its row is missing: ${installHint(packageOf(name))}`);

/** Those that are installed, such as `HAProxy 2.6.12`. */
export const proxyVersions = kinds.flatMap(({ name }) => {
  const command = path(name);
  if (command === undefined) return [];
  const { stdout, stderr } = spawnSync(command, ['-v'], { encoding: 'utf8' });
  return [`${name} ${/\d+(\.\d+)+/.exec(stdout + stderr)?.[0] ?? ''}`.trim()];
});

/** A running proxy. */
export class LocalProxy {
  name;
  port;
  #kind;
  #protocol;
  #folder;
  #child;

  /** @param {ProxyKind} kind @param {string} command @param {number} port @param {readonly Address[]} pods @param {Protocol} protocol */
  constructor(kind, command, port, pods, protocol) {
    this.name = kind.name;
    this.port = port;
    this.#kind = kind;
    this.#protocol = protocol;
    this.#folder = mkdtempSync(join(tmpdir(), 'evenkeel-bench-'));
    this.#write(pods);
    give(this.#folder, unprivileged());
    const program = fileURLToPath(new URL('proxy-process.mjs', import.meta.url));
    this.#child = fork(program, kind.start(command, this.#config, this.#folder), { execArgv: [] });
  }

  /** Takes these pods from now on. @param {readonly Address[]} pods */
  follow(pods) {
    this.#write(pods);
    this.#child.send({ signal: this.#kind.reload });
  }

  async ready() {
    for (let tries = 0; !(await accepts(this.port)); tries++) {
      if (tries === 200 || this.#child.exitCode !== null) throw new Error(`${this.name} does not listen`);
      await pause(50);
    }
  }

  async stop() {
    const gone = new Promise((resolve) => this.#child.once('exit', resolve));
    if (this.#child.exitCode === null) {
      this.#child.kill();
      await gone;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }

  get #config() {
    return join(this.#folder, 'proxy.conf');
  }

  /** @param {readonly Address[]} pods */
  #write(pods) {
    // Whole at once: it may just be reading the one before.
    const next = `${this.#config}.next`;
    writeFileSync(next, this.#kind.config(this.port, pods, this.#protocol, this.#folder));
    renameSync(next, this.#config);
  }
}

/**
 * Starts every proxy that is installed; all or none.
 * @param {readonly Address[]} pods @param {Protocol} protocol @returns {Promise<LocalProxy[]>}
 */
export async function startProxies(pods, protocol) {
  /** @type {LocalProxy[]} */
  const proxies = [];
  try {
    for (const kind of kinds) {
      const command = path(kind.name);
      if (command === undefined) continue;
      const proxy = new LocalProxy(kind, command, await freePort(), pods, protocol);
      proxies.push(proxy);
      await proxy.ready();
    }
    return proxies;
  } catch (error) {
    for (const proxy of proxies) await proxy.stop();
    throw error;
  }
}

/** @returns {Promise<number>} */
function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
      server.close(() => resolve(port));
    });
  });
}

/** @param {number} port @returns {Promise<boolean>} */
function accepts(port) {
  return new Promise((resolve) => {
    const socket = connectSocket({ host: '127.0.0.1', port });
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
