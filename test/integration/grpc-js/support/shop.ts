import type { Resolver } from 'evenkeel';
import { endpointSlices } from 'evenkeel/kubernetes';
import { type ApiServer, createApiServer, type ServiceController } from '../../../servers/index.js';
import type { Pod } from './pods.js';

/** A cluster with the Service `orders` in the namespace `shop`, whose pods listen on loopback. */
export class Shop implements AsyncDisposable {
  readonly api: ApiServer;
  readonly orders: ServiceController;

  private constructor(api: ApiServer) {
    this.api = api;
    this.orders = api.service('shop', 'orders', { ports: [{ name: 'grpc', port: 50051, targetPort: 'grpc' }] });
  }

  static async start(): Promise<Shop> {
    return new Shop(await createApiServer());
  }

  /** A pod joins, under its own name or as another pod at the same address. */
  join(pod: Pod, more: { readonly name?: string; readonly zone?: string; readonly ready?: boolean } = {}): void {
    this.orders.putPod({ name: pod.name, address: pod.host, ports: { grpc: pod.port }, ...more });
  }

  resolver(): Resolver {
    return endpointSlices({
      apiServer: this.api.url,
      namespace: 'shop',
      service: 'orders',
      port: 'grpc',
      allowAddresses: ['loopback'],
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.api.close();
  }
}
