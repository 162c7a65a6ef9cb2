/**
 * What a WebSocket of `evenkeel/ws` costs its client beside one of `ws` itself: heap while it is open, and the time and CPU of opening.
 * Each measurement is a process of its own that opens many to one server, in turn. `ws` is in twice (A/A).
 *
 *   node --expose-gc test/bench/web-sockets.bench.mjs [--quick]
 */
import { fork, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { staticEndpoints } from 'evenkeel';
import { seededRng } from 'evenkeel/testing';
import { createWebSockets } from 'evenkeel/ws';
import { WebSocket, WebSocketServer } from 'ws';
import { bootstrapMedian, median, shuffled } from './lib/statistics.mjs';
import { table, withInterval } from './lib/table.mjs';

const isQuick = process.argv.includes('--quick');
const SOCKETS = isQuick ? 2_000 : 10_000;
/** Opening at a time. */
const AT_ONCE = 100;
const kinds = ['ws', 'ws, again', 'evenkeel/ws'];
const program = fileURLToPath(import.meta.url);

async function serve() {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', backlog: 1_024 });
  await once(server, 'listening');
  process.send?.(/** @type {import('node:net').AddressInfo} */ (server.address()).port);
  process.on('disconnect', () => process.exit(0));
}

/** @param {string} kind @param {number} port @param {number} count */
async function measure(kind, port, count) {
  const chat = createWebSockets(`ws://127.0.0.1:${port}`, {
    resolver: staticEndpoints([{ address: '127.0.0.1', port }]),
  });
  await chat.balancer.ready();
  const Socket = kind === 'evenkeel/ws' ? chat.WebSocket : WebSocket;
  /** @type {WebSocket[]} */
  const open = [];
  const openOne = async () => {
    const socket = new Socket(`ws://127.0.0.1:${port}`);
    open.push(socket);
    await once(socket, 'open');
  };
  const openAll = async (/** @type {number} */ all) => {
    let left = all;
    const opener = async () => {
      while (left-- > 0) await openOne();
    };
    await Promise.all(Array.from({ length: AT_ONCE }, opener));
  };
  const heap = async () => {
    // The test connections of the first second are over, and all that has become garbage meanwhile is gone.
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    for (let times = 0; times < 3; times++) globalThis.gc?.();
    return process.memoryUsage().heapUsed;
  };
  await openAll(count / 10);
  const heapBefore = await heap();
  const cpu = process.cpuUsage();
  const began = performance.now();
  await openAll(count);
  const openUs = ((performance.now() - began) * 1_000) / count;
  const { user, system } = process.cpuUsage(cpu);
  const bytes = ((await heap()) - heapBefore) / count;
  return { bytes, openUs, cpuUs: (user + system) / count };
}

if (process.argv[2] === 'serve') await serve();
else if (process.argv[2] === 'measure') {
  const [, , , kind = '', port, count] = process.argv;
  console.log(JSON.stringify(await measure(kind, Number(port), Number(count))));
  process.exit(0);
} else {
  const rounds = isQuick ? 3 : 12;
  const rng = seededRng(1);
  const random = () => rng.next();
  /** @type {Record<string, { bytes: number, openUs: number, cpuUs: number }[]>} */
  const taken = Object.fromEntries(kinds.map((kind) => [kind, []]));
  for (let round = 0; round < rounds; round++) {
    for (const kind of shuffled(kinds, random)) {
      const server = fork(program, ['serve'], { execArgv: [] });
      const [port] = await once(server, 'message');
      const { stdout, stderr } = spawnSync(
        process.execPath,
        ['--expose-gc', program, 'measure', kind, String(port), String(SOCKETS)],
        { encoding: 'utf8' },
      );
      server.disconnect();
      await once(server, 'exit');
      if (stdout === '') throw new Error(stderr);
      taken[kind]?.push(JSON.parse(stdout));
    }
  }
  const plain = taken.ws ?? [];
  const rows = kinds.map((kind) => {
    const own = taken[kind] ?? [];
    const ratio = (/** @type {'openUs' | 'cpuUs'} */ what) =>
      kind === 'ws'
        ? '1'
        : withInterval(
            bootstrapMedian(
              own.map((value, round) => value[what] / (plain[round]?.[what] ?? 0)),
              random,
            ),
          );
    return [kind, median(own.map(({ bytes }) => bytes)).toFixed(0), ratio('openUs'), ratio('cpuUs')];
  });
  console.log(`## WebSockets

What ${SOCKETS} open WebSockets cost their client, ${AT_ONCE} opening at a time: bytes of heap for each that is open, and time and CPU of opening one as a multiple of \`ws\`. Each measurement is a process of its own;
median of ${rounds} rounds with its bootstrap 95 % interval.

${table(['', 'heap (bytes)', 'time', 'CPU'], rows, [1, 2, 3])}
`);
}
