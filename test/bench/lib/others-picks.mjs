/**
 * The picks of what people use instead, taken out of their libraries as they are: undici's BalancedPool and grpc-js's
 * round_robin. Both are asked for a pick and nothing more; neither keeps count of what runs, so there is no start or end.
 */
import { experimental } from '@grpc/grpc-js';
import { RoundRobinLoadBalancer } from '@grpc/grpc-js/build/src/load-balancer-round-robin.js';
import { BalancedPool } from 'undici';

/** Upstreams of a BalancedPool are looked through one by one when one is added: more would take minutes. */
const MAX_UPSTREAMS = 1_000;

const READY = 2;

/**
 * @param {number} size
 * @returns {{ name: string, sample: (operations: number) => number }[]}
 */
export function othersPicks(size) {
  const cases = [{ name: 'grpc-js `round_robin`: its pick alone', sample: roundRobinPicks(size) }];
  if (size <= MAX_UPSTREAMS)
    cases.push({ name: 'undici `BalancedPool`: its pick alone', sample: balancedPoolPicks(size) });
  return cases;
}

function balancedPoolPicks(/** @type {number} */ size) {
  const pool = new BalancedPool(Array.from({ length: size }, (_, i) => `http://10.0.${i >> 8}.${i & 255}:80`));
  // Not public: the method every request of it goes through.
  const base = Object.getPrototypeOf(BalancedPool.prototype);
  const symbols = [...Object.getOwnPropertySymbols(BalancedPool.prototype), ...Object.getOwnPropertySymbols(base)];
  const pick = symbols.find((symbol) => symbol.description === 'get dispatcher');
  if (pick === undefined) throw new Error('this undici has another BalancedPool');
  /** @type {any} */
  const picks = pool;
  return timed(() => picks[pick]());
}

function roundRobinPicks(/** @type {number} */ size) {
  /** @type {any} */
  let picker;
  const helper = {
    createSubchannel: readySubchannel,
    updateState: (/** @type {number} */ state, /** @type {unknown} */ latest) => {
      if (state === READY) picker = latest;
    },
    requestReresolution: () => {},
    addChannelzChild: () => {},
    removeChannelzChild: () => {},
  };
  /** @type {any} */
  const balancer = new RoundRobinLoadBalancer(/** @type {any} */ (helper));
  const endpoints = Array.from({ length: size }, (_, i) => ({
    addresses: [{ host: `10.0.${i >> 8}.${i & 255}`, port: 80 }],
  }));
  const config = experimental.selectLbConfigFromList([{ round_robin: {} }]);
  balancer.updateAddressList(experimental.statusOrFromValue(endpoints), config, {}, '');
  const request = { metadata: {}, extraPickInfo: {} };
  return timed(() => picker.pick(request));
}

/** As a subchannel of grpc-js that is connected already. */
function readySubchannel() {
  const subchannel = {
    getConnectivityState: () => READY,
    getAddress: () => '10.0.0.1:80',
    addConnectivityStateListener: () => {},
    removeConnectivityStateListener: () => {},
    startConnecting: () => {},
    ref: () => {},
    unref: () => {},
    getChannelzRef: () => subchannel,
    isHealthy: () => true,
    addHealthStateWatcher: () => {},
    removeHealthStateWatcher: () => {},
    addDataWatcher: () => {},
    realSubchannelEquals: (/** @type {unknown} */ other) => other === subchannel,
    getRealSubchannel: () => subchannel,
  };
  return subchannel;
}

/** @returns {(operations: number) => number} */
function timed(/** @type {() => unknown} */ pick) {
  return (operations) => {
    let found = 0;
    const begun = process.hrtime.bigint();
    for (let i = 0; i < operations; i++) if (pick() !== undefined) found++;
    const ns = Number(process.hrtime.bigint() - begun) / operations;
    if (found !== operations) throw new Error(`${operations - found} of ${operations} picks found nothing`);
    return ns;
  };
}
