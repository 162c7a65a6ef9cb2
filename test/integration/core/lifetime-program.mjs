/**
 * Uses a balancer in one of several ways and then has nothing more to do: what still runs is what keeps the process.
 *
 *   node lifetime-program.mjs <way>
 */
import { createBalancer, outcomes, staticEndpoints } from 'evenkeel';

const [, , way] = process.argv;

const refused = () => Promise.reject(Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }));
const never = new Promise(() => {});
/** By last number of the address: 1 accepts, 2 refuses, 3 never answers. */
const transport = {
  connect(endpoint) {
    if (endpoint.address.endsWith('.2')) return refused();
    if (endpoint.address.endsWith('.3')) return never;
    let settle = () => {};
    const closed = new Promise((resolve) => {
      settle = resolve;
    });
    return Promise.resolve({
      handle: endpoint.address,
      capacity: Number.POSITIVE_INFINITY,
      closed,
      close: async () => settle(undefined),
    });
  },
};
const all = staticEndpoints([1, 2, 3].map((n) => ({ address: `10.0.0.${n}`, port: 80 })));
const silent = { name: 'silent', watch: () => ({ refresh() {}, close() {} }) };
const make = (options) => createBalancer({ transport, ...options });

const ways = {
  /** One endpoint connected, one in backoff, one connecting; calls were made; never closed. */
  async idle() {
    const balancer = make({ resolver: all });
    for (let call = 0; call < 10; call++) await balancer.run((handle) => console.log(handle));
  },
  /** As `idle`, and a call is left running. */
  async forgotten() {
    const balancer = make({ resolver: all });
    const lease = await balancer.acquire();
    console.log(lease.handle);
  },
  async waiting() {
    const balancer = make({ resolver: silent, waitTimeoutMs: 300 });
    await balancer.acquire().catch(({ code }) => console.log(code));
  },
  async starting() {
    const balancer = make({ resolver: silent, startTimeoutMs: 300 });
    await balancer.ready().catch(({ code }) => console.log(code));
  },
  /** A call runs on for longer than closing is patient. */
  async closing() {
    const balancer = make({ resolver: all, pool: { drainTimeoutMs: 300 } });
    const lease = await balancer.acquire();
    await balancer.close();
    lease.end(outcomes.reset);
    console.log('closed');
  },
};
await ways[way]();
console.log('done');
