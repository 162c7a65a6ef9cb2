// @ts-check
/**
 * One pod: a process that serves the protocols it is told to, started by `kubelet.js`.
 *
 * Ends like a well-behaved service: after SIGTERM it keeps serving for a second, because clients notice a little later; then it tells
 * them over their connections (`Connection: close`, GOAWAY), and exits once no more requests come.
 */
import { Connections } from './connections.js';
import { Work } from './work.js';

/**
 * @typedef {object} PodOptions
 * @property {string} name
 * @property {string} address
 * @property {Readonly<Record<string, number>>} ports by protocol; 0 takes a free one
 * @property {Readonly<Record<string, number>>} serviceTimes the mean work on a request in ms, by protocol
 * @property {import('../mariadb-home.js').MariadbHome} [mariadb] where a MariaDB server finds its data; without it a stand-in serves
 */

/**
 * @typedef {object} Served one port
 * @property {(address: string, port: number) => Promise<number>} listen resolves with the port
 * @property {() => Promise<void>} leave tells clients to go; resolves when there is nothing to wait for
 */
/** @typedef {{ name: string, work: Work, connections: Connections, mariadb?: PodOptions['mariadb'] }} Serving */
/** @typedef {(pod: Serving) => Served} Serve */

const GRACE_MS = 1_000;
const QUIET_MS = 400;

/** @type {PodOptions} */
const { name, address, ports, serviceTimes, mariadb } = JSON.parse(process.argv[2] ?? '{}');
const work = new Work(serviceTimes);
const connections = new Connections();
connections.report((byLane) => process.send?.({ type: 'connections', connections: byLane }));

/** Protocol modules are loaded only if served. @type {Readonly<Record<string, () => Promise<Serve>>>} */
const protocols = {
  http: async () => (await import('./http.js')).serveHttp,
  grpc: async () => (await import('./grpc.js')).serveGrpc,
  websocket: async () => (await import('./websocket.js')).serveWebSocket,
  mysql: async () => (mariadb ? (await import('./mariadb.js')).serveMariadb : (await import('./mysql.js')).serveMysql),
};

/** @type {{ protocol: string, server: Served, port: number }[]} */
let served = [];

process.on('SIGTERM', () => {
  setTimeout(async () => {
    await Promise.all(served.map(({ server }) => server.leave()));
    setInterval(() => {
      if (work.quietFor(QUIET_MS)) process.exit(0);
    }, 50);
  }, GRACE_MS);
});
process.on('message', (/** @type {{ type: string, fault: import('./work.js').Fault }} */ message) => {
  if (message.type === 'fault') work.fault = message.fault;
});
// Ctrl-C reaches the whole process group; the playground ends its pods itself, in order.
process.on('SIGINT', () => {});
process.on('disconnect', () => process.exit(0));

served = await Promise.all(
  Object.entries(ports).map(async ([protocol, port]) => {
    const serve = Object.hasOwn(protocols, protocol) ? await protocols[protocol]?.() : undefined;
    if (serve === undefined) throw new Error(`pod ${name}: nothing here serves ${protocol}`);
    const server = serve({ name, work, connections, ...(mariadb && { mariadb }) });
    return { protocol, server, port: await server.listen(address, port) };
  }),
);
process.send?.({ type: 'listening', ports: Object.fromEntries(served.map(({ protocol, port }) => [protocol, port])) });
