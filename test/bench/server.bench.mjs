/**
 * What `evenkeel/server` costs a request: CPU time of a server of node:http in a process of its own, plain beside counted and beside
 * reporting. The plain one is in twice (A/A). Each of 16 connections sends one request at a time.
 *
 *   node --expose-gc test/bench/server.bench.mjs [--quick]
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { seededRng } from 'evenkeel/testing';
import { MIN_ROUNDS } from './lib/rounds.mjs';
import { bootstrapMedian, judgeLimit, median, shuffled } from './lib/statistics.mjs';
import { table, withInterval } from './lib/table.mjs';

const quick = process.argv.includes('--quick');
const ROUNDS = quick ? 10 : MIN_ROUNDS;
const REQUESTS = 10_000;
const CONNECTIONS = 16;
const LIMIT_US = 2;
const rng = seededRng(1);
const random = () => rng.next();

const child = fork(new URL('lib/report-server.mjs', import.meta.url), { execArgv: ['--expose-gc'] });
const [{ ports }] = /** @type {[{ ports: Record<string, number> }]} */ (await once(child, 'message'));

async function cpuUs() {
  child.send('cpu');
  const [{ us }] = /** @type {[{ us: number }]} */ (await once(child, 'message'));
  return us;
}

/** Connections that send requests of these bytes, one at a time each. */
class Connections {
  #sockets;
  #left = 0;
  /** @type {() => void} */
  #done = () => {};

  /** @param {number} port @param {string} head */
  constructor(port, head) {
    this.#sockets = Array.from({ length: CONNECTIONS }, () => {
      const socket = connect(port, '127.0.0.1');
      // An answer fits into one segment.
      socket.on('data', () => {
        this.#left--;
        if (this.#left >= CONNECTIONS) socket.write(head);
        else if (this.#left === 0) this.#done();
      });
      return socket;
    });
    this.head = head;
  }

  /** @param {number} requests */
  async send(requests) {
    this.#left = requests;
    const answered = new Promise((resolve) => {
      this.#done = () => resolve(undefined);
    });
    for (const socket of this.#sockets) socket.write(this.head);
    await answered;
  }

  close() {
    for (const socket of this.#sockets) socket.destroy();
  }
}

const plainHead = 'GET / HTTP/1.1\r\nHost: orders.shop\r\nX-Some-Header-Of-The-Same-Length-: TEXT\r\n\r\n';
const askingHead = 'GET / HTTP/1.1\r\nHost: orders.shop\r\nEndpoint-Load-Metrics-Format: TEXT\r\n\r\n';
/** @type {readonly [name: string, port: string, head: string][]} */
const subjects = [
  ['plain', 'plain', plainHead],
  ['plain, again', 'again', plainHead],
  ['counted', 'counted', plainHead],
  ['reporting, not asked', 'reporting', plainHead],
  ['reporting, asked', 'reporting', askingHead],
];
const connections = new Map(subjects.map(([name, port, head]) => [name, new Connections(Number(ports[port]), head)]));
/** @type {Map<string, number[]>} */
const samples = new Map(subjects.map(([name]) => [name, []]));
for (let round = -3; round < ROUNDS; round++) {
  for (const [name, connection] of shuffled([...connections], random)) {
    const before = await cpuUs();
    await connection.send(REQUESTS);
    if (round >= 0) samples.get(name)?.push(((await cpuUs()) - before) / REQUESTS);
  }
}
for (const connection of connections.values()) connection.close();
child.disconnect();

/** @param {string} name */
const took = (name) => samples.get(name) ?? [];
const rows = subjects.slice(1).map(([name]) => {
  const added = bootstrapMedian(
    took(name).map((value, round) => value - Number(took('plain')[round])),
    random,
  );
  const verdict = name === 'plain, again' ? 'A/A' : judgeLimit(added, LIMIT_US);
  return [name, withInterval(added), quick && name !== 'plain, again' ? `(${verdict})` : verdict];
});

console.log(`## Reports of load

CPU time that \`evenkeel/server\` adds to a request, in µs: per-round differences to the same server without it (which takes ${median(took('plain')).toFixed(1)} µs per
request), median of ${ROUNDS} interleaved rounds of ${REQUESTS.toLocaleString('en-US')} requests with its bootstrap 95 % interval. Wanted: ≤ ${LIMIT_US} µs.

${table(['', 'µs per request', 'verdict'], rows, [2])}
`);
