/**
 * Sends requests to the servers at the given ports through the built package, prints the answers and does nothing more. It does not
 * close its RSocket: the process has to end by itself.
 */
import { staticEndpoints } from 'evenkeel';
import { createRSocket } from '../../../examples/rsocket/adapter/index.js';

const [how, ...ports] = process.argv.slice(2);
const rsocket = createRSocket('orders.shop:7000', {
  resolver: staticEndpoints(ports.map((port) => ({ address: '127.0.0.1', port: Number(port) }))),
});
await rsocket.balancer.ready();

/** The payloads of a stream or response. */
function heard(begin) {
  return new Promise((resolve, reject) => {
    const data = [];
    const onNext = (payload, isLast) => {
      data.push(String(payload.data));
      if (isLast) resolve(data);
    };
    begin({ onNext, onComplete: () => resolve(data), onError: reject, onExtension() {} });
  });
}

if (how !== 'none') {
  for (let round = 0; round < 3; round++) {
    console.log((await heard((receiver) => rsocket.requestResponse({ data: Buffer.from('name') }, receiver))).length);
  }
  console.log((await heard((receiver) => rsocket.requestStream({ data: Buffer.from('count:4') }, 9, receiver))).length);
}
console.log('done');
