// Follows a number of Services of an API server over TLS, or holds that many HTTP/2 streams to it, and says how much memory that takes.
import { connect } from 'node:http2';
import { systemClock, systemRng } from 'evenkeel';
import { endpointSlices } from 'evenkeel/kubernetes';

const { services, apiServer, ca, http2 } = JSON.parse(process.argv[2] ?? '{}');
const context = { clock: systemClock, rng: systemRng, observer: {} };
let synced = 0;

/** @param {number} index */
function follow(index) {
  const options = { namespace: 'shop', service: `orders-${index}`, apiServer, credentials: { ca } };
  endpointSlices(options).watch({ update: done, fail() {}, fresh() {} }, context);
}

function done() {
  synced += 1;
  if (synced === services) setTimeout(report, 300);
}

function report() {
  globalThis.gc?.();
  globalThis.gc?.();
  const { rss, heapUsed, external } = process.memoryUsage();
  process.send?.({ rss, heapUsed, external });
}

if (http2) {
  const session = connect(apiServer, { ca });
  for (let index = 0; index < services; index++) {
    const stream = session.request({ ':path': `/watch/${index}` });
    stream.once('data', done);
    stream.end();
  }
} else for (let index = 0; index < services; index++) follow(index);
if (services === 0) setTimeout(report, 300);
process.on('disconnect', () => process.exit());
