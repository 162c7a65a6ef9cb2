import type { Socket } from 'node:net';
import { type Balancer, createEndpoint, type Endpoint, outcomes } from '../../index.js';
import { afterPendingIo } from '../kit/index.js';
import { type Dialled, type DialOptions, dialler } from './dial.js';

/** nock 15 and msw 3 both use `@mswjs/interceptors` from 0.42 on, which keeps its interceptors in a global. */
export interface Mocking {
  readonly __MSW_INTERCEPTORS_REGISTRY?: ReadonlyMap<symbol, { readonly readyState?: unknown }>;
}
const socketInterceptor = Symbol.for('socket-interceptor');

/** Holds their registry, which is undefined unless one of them is loaded. A field, because every request looks. */
export const mocking: Mocking = globalThis as Mocking;

/**
 * Whether a library mocks HTTP in this process by intercepting sockets. It identifies a request by the host and port its socket was
 * opened to, and does not see sockets that are older than the mock. With our connections to pods it would match nothing, and the pods
 * would get the request. Called for every request, because mocks come and go.
 */
export function socketsAreMocked(): boolean {
  const registry = mocking.__MSW_INTERCEPTORS_REGISTRY;
  return registry !== undefined && registry.get(socketInterceptor)?.readyState === 'ACTIVE';
}

/** The host and port a request names. */
export interface HostAndPort {
  readonly host: string;
  readonly port: number;
}

/**
 * Opens sockets that a mock takes for sockets to the Service. Requests it lets through go to a pod if one is known, otherwise to the
 * Service's own name.
 */
export class MockedDial {
  readonly #balancer: Balancer<unknown>;
  readonly #options: DialOptions;

  constructor(balancer: Balancer<unknown>, options: DialOptions) {
    this.#balancer = balancer;
    // Mocks speak HTTP/1.1.
    this.#options = { ...options, allowH2: false };
  }

  connect(asked: HostAndPort, dialled: Dialled): void {
    // The first set of a fixed list comes at the end of this turn.
    if (this.#balancer.snapshot().state === 'starting') afterPendingIo(() => this.#open(asked, dialled));
    else this.#open(asked, dialled);
  }

  /** Opens a socket to a pod, or to the Service's own name, for a mock that uses an Agent only for that. */
  connectToPod(asked: HostAndPort): Socket {
    const endpoint = this.#anyPod() ?? createEndpoint({ address: asked.host, port: asked.port });
    return dialler(endpoint, this.#options)(() => {});
  }

  #open(asked: HostAndPort, dialled: Dialled): Socket {
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
    // None is connected, which does not matter here.
    const [known] = this.#balancer.snapshot().endpoints;
    if (known === undefined) return undefined;
    const { hostname, port } = new URL(`http://${known.address}`);
    return createEndpoint({ address: hostname.replace(/^\[(.*)\]$/, '$1'), port: Number(port || 80) });
  }
}
