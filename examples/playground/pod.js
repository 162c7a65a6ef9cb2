// @ts-check
/**
 * One pod: a process of its own with an HTTP server, started by `kubelet.js`.
 *
 * It works like a single-threaded service: one request at a time, the next one waits. Each client has such a worker for
 * itself (a lane), so the queue one client piles up never delays the other: two experiments on the same pods.
 *
 * Ends as a well-behaved service does: after SIGTERM it serves on for a second, because clients hear of it a little
 * later; then it answers with `Connection: close`, and leaves once nobody asks any more.
 */
import { createServer } from 'node:http';
import { Lane } from './lane.js';

/** @typedef {'none' | 'slow' | 'failing' | 'unready'} Fault */

const GRACE_MS = 1_000;
const QUIET_MS = 400;
const SLOW_FACTOR = 10;
const REPORT_MS = 100;

const name = process.argv[2] ?? 'pod';
const wantedPort = Number(process.argv[3] ?? 0);
const serviceTimeMs = Number(process.argv[4] ?? 5);

/** @type {Fault} */
let fault = 'none';
let leaving = false;
let busy = 0;
let lastRequestAt = performance.now();

/** The time one request takes: most take a little less than the mean, a few take several times as long. */
function drawServiceTime() {
  const base = serviceTimeMs * (0.6 - 0.4 * Math.log(1 - Math.random()));
  return Math.min(base, serviceTimeMs * 6) * (fault === 'slow' ? SLOW_FACTOR : 1);
}

/** @type {Map<string, Lane>} */
const lanes = new Map();

/** @param {string} name */
function laneOf(name) {
  const lane = lanes.get(name) ?? new Lane(drawServiceTime);
  lanes.set(name, lane);
  return lane;
}

/** Open connections, each counted for the client whose first request it carried. @type {Map<import('node:net').Socket, string>} */
const connections = new Map();
let connectionsChanged = false;

/** @param {import('node:net').Socket} socket @param {string} lane */
function countConnection(socket, lane) {
  if (connections.has(socket)) return;
  connections.set(socket, lane);
  connectionsChanged = true;
  socket.once('close', () => {
    connections.delete(socket);
    connectionsChanged = true;
  });
}

setInterval(() => {
  if (!connectionsChanged) return;
  connectionsChanged = false;
  /** @type {Record<string, number>} */
  const byLane = {};
  for (const lane of connections.values()) byLane[lane] = (byLane[lane] ?? 0) + 1;
  process.send?.({ type: 'connections', connections: byLane });
}, REPORT_MS);

const server = createServer(async (request, response) => {
  request.resume();
  if (request.url === '/readyz') {
    response.writeHead(fault === 'unready' ? 503 : 200, { connection: 'close' }).end();
    return;
  }
  const lane = String(request.headers['x-lane'] ?? '');
  countConnection(request.socket, lane);
  busy += 1;
  response.once('close', () => {
    busy -= 1;
    lastRequestAt = performance.now();
  });
  let status = 200;
  if (fault === 'failing') {
    status = 500;
    await new Promise((resolve) => setTimeout(resolve, 1));
  } else {
    await laneOf(lane).work(response);
  }
  const body = JSON.stringify({ pod: name });
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    ...(leaving ? { connection: 'close' } : {}),
  });
  response.end(body);
});

server.listen(wantedPort, '127.0.0.1', () => {
  const address = server.address();
  process.send?.({ type: 'listening', port: typeof address === 'object' ? address?.port : 0 });
});
server.on('error', (error) => {
  console.error(`pod ${name}: ${error.message}`);
  process.exit(1);
});

process.on('SIGTERM', () => {
  setTimeout(() => {
    leaving = true;
    setInterval(() => {
      if (busy === 0 && performance.now() - lastRequestAt > QUIET_MS) process.exit(0);
    }, 50);
  }, GRACE_MS);
});
process.on('message', (/** @type {{ type: string, fault: Fault }} */ message) => {
  if (message.type === 'fault') fault = message.fault;
});
// Ctrl-C reaches the whole process group; the playground ends its pods itself, in order.
process.on('SIGINT', () => {});
process.on('disconnect', () => process.exit(0));
