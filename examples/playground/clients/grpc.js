// @ts-check
/** What all gRPC clients have in common: the generated client's class, the retry policy, the call. */
import { credentials, Metadata, status } from '@grpc/grpc-js';
import { Orders } from '../../grpc/orders.js';

/**
 * As in `examples/grpc`: what a lost connection cut off is repeated. All three clients have it, so that it is no part of
 * the difference.
 */
const methodConfig = [
  {
    name: [{ service: 'shop.v1.Orders', method: 'Get' }],
    retryPolicy: {
      maxAttempts: 3,
      initialBackoff: '0.01s',
      maxBackoff: '0.1s',
      backoffMultiplier: 2,
      retryableStatusCodes: ['UNAVAILABLE'],
    },
  },
];

/** @param {object[]} [loadBalancingConfig] grpc-js's default, pick_first, when absent */
export const serviceConfig = (loadBalancingConfig) =>
  JSON.stringify({ methodConfig, ...(loadBalancingConfig && { loadBalancingConfig }) });

/** @param {string} target @param {import('@grpc/grpc-js').ClientOptions} options @returns {import('./client.js').Client['ask']} */
export function askOver(target, options) {
  /** Its methods are those of the .proto file. @type {any} */
  const client = new Orders(target, credentials.createInsecure(), options);
  return ({ lane, deadlineMs }) =>
    new Promise((resolve) => {
      const metadata = new Metadata();
      metadata.set('x-lane', lane);
      const deadline = Date.now() + deadlineMs;
      client.get({ id: '42' }, metadata, { deadline }, (/** @type {any} */ error, /** @type {any} */ order) => {
        if (error === null) resolve({ pod: order.pod });
        else
          resolve({
            pod: error.metadata?.get('x-pod')[0]?.toString(),
            error: status[error.code] ?? String(error.code),
          });
      });
    });
}
