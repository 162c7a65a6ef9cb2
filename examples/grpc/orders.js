// @ts-check
import { fileURLToPath } from 'node:url';
import { loadPackageDefinition } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

/**
 * The Orders service, made from its .proto file at run time: `Orders` is the client class, `Orders.service` is for servers.
 * @type {import('@grpc/grpc-js').ServiceClientConstructor}
 */
export const Orders = /** @type {any} */ (
  loadPackageDefinition(loadSync(fileURLToPath(new URL('orders.proto', import.meta.url)), { defaults: true }))
).shop.v1.Orders;
