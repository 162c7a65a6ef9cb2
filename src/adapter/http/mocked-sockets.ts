import type { Socket } from 'node:net';
import { type Balancer, createEndpoint, type Endpoint, outcomes } from '../../index.js';
import { afterPendingIo } from '../kit/index.js';
import { type Dialled, type DialOptions, dialler } from './dial.js';

/** What nock 15 and msw 3 share: `@mswjs/interceptors` from 0.42 on, which keeps its interceptors in a global. */
interface Mocking {
  readonly __MSW_INTERCEPTORS_REGISTRY?: ReadonlyMap<symbol, { readonly readyState?: unknown }>;
}
const socketInterceptor = Symbol.for('socket-interceptor');

/**
 * Whether a library mocks HTTP in this process by standing in front of its sockets. It knows a request by the host and
 * port its socket was opened to, and knows nothing of sockets that are older than itself: behind our connections to pods
 * it would match nothing, and the pods would be asked. Asked for every request, since mocks come and go.
 */
export function socketsAreMocked(): boolean {
  const registry = (globalThis as Mocking).__MSW_INTERCEPTORS_REGISTRY;
  return registry !== undefined && registry.get(socketInterceptor)?.readyState === 'ACTIVE';
}

/** What a request of a client asks for: the Service, as the request names it. */
export interface Asked {
  readonly host: string;
  readonly port: number;
}

/**
 * Opens sockets that a mock takes for sockets to the Service. What it lets through goes to a pod, if one is known by then,
 * else to the Service's own name.
 */
export class MockedDial {
  readonly #balancer: Balancer<unknown>;
  readonly #options: DialOptions;

  constructor(balancer: Balancer<unknown>, options: DialOptions) {
    this.#balancer = balancer;
    // Mocks speak HTTP/1.1.
    this.#options = { ...options, allowH2: false };
  }

  connect(asked: Asked, dialled: Dialled): void {
    // The first set of a fixed list comes at the end of this turn.
    if (this.#balancer.snapshot().state === 'starting') afterPendingIo(() => this.#open(asked, dialled));
    else this.#open(asked, dialled);
  }

  /** Opens a socket to a pod, or to the Service's own name, for a mock that asks no more of an Agent than that. */
  connectToPod(asked: Asked): Socket {
    const endpoint = this.#anyPod() ?? createEndpoint({ address: asked.host, port: asked.port });
    return dialler(endpoint, this.#options)(() => {});
  }

  #open(asked: Asked, dialled: Dialled): Socket {
    const pod = this.#anyPod();
    const endpoint = pod ?? createEndpoint({ address: asked.host, port: asked.port });
    return dialler(endpoint, this.#options, pod && asked)(dialled);
  }

  #anyPod(): Endpoint | undefined {
    const lease = this.#balancer.pick();
    if (lease !== undefined) {
      lease.end(outcomes.notStarted);
      return lease.endpoint;
    }
    // None is connected, which is no matter here.
    const [known] = this.#balancer.snapshot().endpoints;
    if (known === undefined) return undefined;
    const { hostname, port } = new URL(`http://${known.address}`);
    return createEndpoint({ address: hostname.replace(/^\[(.*)\]$/, '$1'), port: Number(port || 80) });
  }
}
