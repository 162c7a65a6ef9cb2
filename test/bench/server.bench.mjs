/**
 * What `evenkeel/server` costs a request: the CPU time a server of node:http takes for a request, plain beside counted and beside reporting.
 * The plain one is in twice (A/A). Node's own server parses and answers the requests; its connection is a stream in memory, since
 * what the kernel takes for a socket varies by more than what is measured.
 *
 *   node --expose-gc test/bench/server.bench.mjs [--quick]
 */
import { createServer } from 'node:http';
import { Duplex } from 'node:stream';
import { createPod } from 'evenkeel/server';
import { seededRng } from 'evenkeel/testing';
import { MIN_ROUNDS } from './lib/rounds.mjs';
import { bootstrapMedian, judgeLimit, median, quantile, shuffled } from './lib/statistics.mjs';
import { table, withInterval } from './lib/table.mjs';

const quick = process.argv.includes('--quick');
const ROUNDS = quick ? 10 : MIN_ROUNDS;
/** A round is so many short runs of each, in random order; what disturbs one run is not in the fast ones. */
const RUNS = 15;
const REQUESTS = 500;
const LIMIT_US = 2;
const rng = seededRng(1);
const random = () => rng.next();

/** The server's end of a connection. */
class Connection extends Duplex {
  /** @type {() => void} */
  answered = () => {};

  /** @override */
  _read() {}

  /** @override @param {unknown} _chunk @param {string} _encoding @param {() => void} done */
  _write(_chunk, _encoding, done) {
    done();
    this.answered();
  }

  /** @override @param {unknown} _chunks @param {() => void} done */
  _writev(_chunks, done) {
    done();
    this.answered();
  }

  setTimeout() {
    return this;
  }

  setNoDelay() {}
  setKeepAlive() {}
}

class Subject {
  #connection = new Connection();
  #head;
  /** @type {number[]} */
  rounds = [];
  /** @type {number[]} */
  runs = [];

  /** @param {string} name @param {import('node:http').RequestListener} listener @param {string} head */
  constructor(name, listener, head) {
    this.name = name;
    this.#head = Buffer.from(head);
    createServer({ keepAliveTimeout: 0 }, listener).emit('connection', this.#connection);
  }

  /** Microseconds per request. @param {number} requests */
  async run(requests) {
    const connection = this.#connection;
    const head = this.#head;
    let left = requests;
    const begun = process.cpuUsage();
    await new Promise((resolve) => {
      connection.answered = () => {
        // The response is over at the end of this turn; only then does the next request come.
        if (--left > 0) setImmediate(() => connection.push(head));
        else setImmediate(() => resolve(undefined));
      };
      connection.push(head);
    });
    const { user, system } = process.cpuUsage(begun);
    return (user + system) / requests;
  }
}

/** @type {import('node:http').RequestListener} */
const listener = (_request, response) => void response.setHeader('content-type', 'text/plain').end('hello');
const counting = createPod({ reports: false });
const reporting = createPod();
const plainHead = 'GET / HTTP/1.1\r\nHost: orders.shop\r\nX-Header-Of-The-Same-Length-: TEXT\r\n\r\n';
const askingHead = 'GET / HTTP/1.1\r\nHost: orders.shop\r\nEndpoint-Load-Metrics-Format: TEXT\r\n\r\n';
const plain = new Subject('plain', listener, plainHead);
const subjects = [
  plain,
  new Subject('plain, again', listener, plainHead),
  new Subject('counted', counting.http(listener), plainHead),
  new Subject('reporting, not asked', reporting.http(listener), plainHead),
  new Subject('reporting, asked', reporting.http(listener), askingHead),
];
for (let round = -5; round < ROUNDS; round++) {
  for (let run = 0; run < RUNS; run++) {
    for (const subject of shuffled(subjects, random)) {
      globalThis.gc?.({ type: 'minor' });
      subject.runs.push(await subject.run(REQUESTS));
    }
  }
  for (const subject of subjects) {
    if (round >= 0) subject.rounds.push(quantile(subject.runs, 0.2));
    subject.runs = [];
  }
}

const rows = subjects.slice(1).map(({ name, rounds }) => {
  const added = bootstrapMedian(
    rounds.map((value, round) => value - Number(plain.rounds[round])),
    random,
  );
  const verdict = name === 'plain, again' ? 'A/A' : judgeLimit(added, LIMIT_US);
  return [name, withInterval(added), quick && name !== 'plain, again' ? `(${verdict})` : verdict];
});

console.log(`## Reports of load

CPU time that \`evenkeel/server\` adds to a request, in µs: differences to the same server of node:http without it, which takes ${median(plain.rounds).toFixed(1)} µs per request over a
connection in memory. Median of ${ROUNDS} interleaved rounds of ${RUNS} runs of ${REQUESTS} requests (of the runs of a round the lower quintile) with its bootstrap 95 % interval. Wanted: ≤ ${LIMIT_US} µs.

${table(['', 'µs per request', 'verdict'], rows, [2])}
`);
await counting.close();
await reporting.close();
