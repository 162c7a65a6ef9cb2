/**
 * What `evenkeel/server` costs a request: the CPU time a server of node:http takes for a request, plain beside counted, reporting and
 * limited. What a context costs is another program's: once a process has one, all its promises pay. The plain one is in twice (A/A). Node's own server parses and answers the requests; its connection is a stream in memory, since
 * what the kernel takes for a socket varies by more than what is measured.
 *
 *   node --expose-gc test/bench/server.bench.mjs [--quick]
 */
import { createServer } from 'node:http';
import { adaptive } from 'evenkeel';
import { createBackend } from 'evenkeel/server';
import { seededRng } from 'evenkeel/testing';
import { Connection } from './lib/memory-connection.mjs';
import { MIN_ROUNDS } from './lib/rounds.mjs';
import { bootstrapMedian, judgeLimit, median, quantile, shuffled } from './lib/statistics.mjs';
import { table, withInterval } from './lib/table.mjs';

const quick = process.argv.includes('--quick');
const ROUNDS = quick ? 10 : MIN_ROUNDS;
/** A round is several short runs of each, in random order; a disturbance of one run is not in the fast ones. */
const RUNS = 15;
const REQUESTS = 500;
const LIMIT_US = 3;
const rng = seededRng(1);
const random = () => rng.next();

class Subject {
  #connection = new Connection();
  #head;
  /** @type {number[]} */
  rounds = [];
  /** @type {number[]} */
  runs = [];

  /** @param {string} name @param {import('node:http').RequestListener} listener @param {string} head @param {Subject} [than] */
  constructor(name, listener, head, than) {
    this.name = name;
    /** What it is compared with; undefined = the plain one. */
    this.than = than;
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
const counting = createBackend({ reports: false });
const reporting = createBackend();
const plainHead = 'GET / HTTP/1.1\r\nHost: orders.shop\r\nX-Header-Of-The-Same-Length-: TEXT\r\n\r\n';
const askingHead = 'GET / HTTP/1.1\r\nHost: orders.shop\r\nEndpoint-Load-Metrics-Format: TEXT\r\n\r\n';
const limited = createBackend({ limit: adaptive(), trust: () => true });
const everyHead =
  'GET / HTTP/1.1\r\nHost: orders.shop\r\nEndpoint-Load-Metrics-Format: TEXT\r\nX-Envoy-Expected-Rq-Timeout-Ms: 60000\r\nX-Request-Priority: critical\r\n\r\n';
const plainLongHead =
  'GET / HTTP/1.1\r\nHost: orders.shop\r\nX-Header-Of-The-Same-Length-: TEXT\r\nX-Another-Of-The-Same-Length--: 60000\r\nX-One-More-Header-: critical\r\n\r\n';
const plain = new Subject('plain', listener, plainHead);
const plainLong = new Subject('plain, two headers more', listener, plainLongHead);
const subjects = [
  plain,
  new Subject('plain, again', listener, plainHead),
  new Subject('counted', counting.http(listener), plainHead),
  new Subject('reporting, not asked', reporting.http(listener), plainHead),
  new Subject('reporting, asked', reporting.http(listener), askingHead),
  plainLong,
  new Subject('limit, deadline and priority, reporting, asked', limited.http(listener), everyHead, plainLong),
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

/** @param {Subject} subject */
const isReference = (subject) => [plain, plainLong].includes(subject);
const compared = subjects.filter((subject) => !isReference(subject));
const rows = compared.map(({ name, rounds, than = plain }) => {
  const added = bootstrapMedian(
    rounds.map((value, round) => value - Number(than.rounds[round])),
    random,
  );
  const verdict = name === 'plain, again' ? 'A/A' : judgeLimit(added, LIMIT_US);
  return [name, withInterval(added), quick && name !== 'plain, again' ? `(${verdict})` : verdict];
});

console.log(`## Reports of load

CPU time that \`evenkeel/server\` adds to a request on Node ${process.versions.node}, in µs: differences to the same server of node:http, request and handler without it, which takes ${median(plain.rounds).toFixed(1)} µs per request over a
connection in memory. Median of ${ROUNDS} interleaved rounds of ${RUNS} runs of ${REQUESTS} requests (of the runs of a round the lower quintile) with its bootstrap 95 % interval. Wanted: ≤ ${LIMIT_US} µs.

${table(['', 'µs per request', 'verdict'], rows, [2])}
`);
await counting.close();
await reporting.close();
await limited.close();
