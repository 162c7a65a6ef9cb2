import { seededRng } from '../../../src/testing/seeded-rng.js';
import type { ApiServerOptions, EndpointSliceObject } from '../../servers/index.js';
import { type ApiServer, createApiServer } from '../../servers/index.js';
import { RawWatch } from './api-server-client.js';

const servers: ApiServer[] = [];
const watches: RawWatch[] = [];

/** Starts an API server that `closeAll` closes. */
export async function server(options: ApiServerOptions = {}): Promise<ApiServer> {
  const api = await createApiServer({ rng: seededRng(1), ...options });
  servers.push(api);
  return api;
}

/** Opens a watch that `closeAll` closes. */
export async function watch(api: ApiServer, query: string = '', headers?: Record<string, string>): Promise<RawWatch> {
  const stream = await RawWatch.open(api.url, query, headers);
  watches.push(stream);
  return stream;
}

/** For `afterEach`. */
export async function closeAll(): Promise<void> {
  for (const stream of watches.splice(0)) stream.close();
  for (const api of servers.splice(0)) await api.close();
}

/** A slice of ready addresses. */
export function slice(name: string, addresses: readonly string[], service: string = 'orders'): EndpointSliceObject {
  return {
    metadata: { name, namespace: 'shop', labels: { 'kubernetes.io/service-name': service } },
    addressType: 'IPv4',
    endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
    ports: [{ name: 'http', port: 80, protocol: 'TCP' }],
  };
}

/** The selector of the slices of `orders`. */
export const ofOrders: string = `labelSelector=${encodeURIComponent('kubernetes.io/service-name=orders')}`;
