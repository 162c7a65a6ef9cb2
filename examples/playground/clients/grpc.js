// @ts-check
/** What all gRPC clients share: the generated client class, the retry policy, the call. */
import { credentials, Metadata, status } from '@grpc/grpc-js';
import { Orders } from '../../grpc/orders.js';
import { BEGUN } from './recorder.js';

/**
 * As in `examples/grpc`: calls cut off by a lost connection are retried. All three clients have this policy, so it makes no
 * difference between them.
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
      let begun = false;
      /** @param {any} error @param {any} order */
      const ended = (error, order) => {
        if (error === null) return resolve({ pod: order.pod });
        const code = status[error.code] ?? String(error.code);
        resolve({
          pod: error.metadata?.get('x-pod')[0]?.toString(),
          error: begun ? `${code}${BEGUN}` : code,
        });
      };
      client.get({ id: '42' }, metadata, { deadline }, ended).on('metadata', () => {
        begun = true;
      });
    });
}
