// @ts-check
/**
 * A client of the Orders service, as in an application.
 *
 *   node client.js orders.shop:50051        sends a request every 100 ms and prints who answered, until Ctrl+C
 */
import { credentials } from '@grpc/grpc-js';
import { serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';
import { Orders } from './orders.js';

/** Retries calls that a lost connection or a leaving pod cut off; every attempt goes to another pod. */
const serviceConfig = {
  methodConfig: [
    {
      name: [{ service: 'shop.v1.Orders', method: 'Get' }],
      timeout: '5s',
      retryPolicy: {
        maxAttempts: 3,
        initialBackoff: '0.01s',
        maxBackoff: '0.1s',
        backoffMultiplier: 2,
        retryableStatusCodes: ['UNAVAILABLE'],
      },
    },
  ],
};

/** @param {string} service @param {import('evenkeel/grpc-js').GrpcOptions} options */
export function ordersClient(service, options = {}) {
  /** Its methods are those of the .proto file. @type {any} */
  const client = new Orders(
    serviceTarget(service),
    credentials.createInsecure(),
    serviceChannelOptions({ 'grpc.service_config': JSON.stringify(serviceConfig), ...options }),
  );
  return {
    /** @param {string} id @returns {Promise<{ id: string, state: string, pod: string }>} */
    get: (id) =>
      new Promise((resolve, reject) => {
        client.get({ id }, (/** @type {Error | null} */ error, /** @type {any} */ order) =>
          error === null ? resolve(order) : reject(error),
        );
      }),
    /** @param {string} id @returns {AsyncIterable<{ state: string, pod: string }>} */
    follow: (id) => client.follow({ id }),
    close: () => client.close(),
  };
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const client = ordersClient(process.argv[2] ?? 'orders.shop:50051', {
    observer: { discoveryChanged: ({ mode, reason, advice }) => console.log(`${mode}: ${reason}`, advice ?? '') },
  });
  for (let id = 1; ; id++) {
    await client.get(String(id)).then(
      ({ pod }) => console.log(pod),
      (error) => console.log(error.message),
    );
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
