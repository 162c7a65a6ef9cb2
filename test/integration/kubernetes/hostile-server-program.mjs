// Follows a Service of the API server at argv[2], and says what it is told, line by line.
import { systemClock, systemRng } from 'evenkeel';
import { endpointSlices } from 'evenkeel/kubernetes';

const [, , apiServer = ''] = process.argv;
const say = (/** @type {string} */ line) => process.stdout.write(`${line}\n`);
endpointSlices({ namespace: 'shop', service: 'orders', port: 'http', apiServer }).watch(
  {
    update: (/** @type {{ address: string }[]} */ set) => say(`set ${set.map(({ address }) => address).join(' ')}`),
    fail: (/** @type {Error} */ { message }) => say(`fail ${message}`),
    fresh: () => {},
  },
  { clock: systemClock, rng: systemRng, observer: {} },
);
// A watch alone does not keep a process alive.
setInterval(() => {}, 60_000);
