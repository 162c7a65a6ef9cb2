import type { Socket } from 'node:net';
import { type Balancer, createEndpoint, type Endpoint, outcomes } from '../../index.js';
import { afterPendingIo } from '../kit/index.js';
import { type Dialled, type DialOptions, dialler } from './dial.js';

/** The host and port that a request names. */
export interface HostAndPort {
  readonly host: string;
  readonly port: number;
}

/**
 * Opens sockets that a mock takes for sockets to the Service. Requests that the mock lets through go to a pod if one is known, otherwise to
 * the Service's own name.
 */
export class MockedDial {
  readonly #balancer: Balancer<unknown>;
  readonly #options: DialOptions;

  constructor(balancer: Balancer<unknown>, options: DialOptions) {
    this.#balancer = balancer;
    // Libraries that mock sockets speak only HTTP/1.1.
    this.#options = { ...options, allowH2: false };
  }

  connect(target: HostAndPort, dialled: Dialled): void {
    // A resolver with a fixed list delivers its endpoints at the end of this turn of the event loop, so the dial waits for that.
    if (this.#balancer.snapshot().state === 'starting') afterPendingIo(() => this.#open(target, dialled));
    else this.#open(target, dialled);
  }

  /** Opens a socket to a pod, or to the Service's own name, for a mock that uses an Agent only to open sockets. */
  connectToPod(target: HostAndPort): Socket {
    const endpoint = this.#anyPod() ?? createEndpoint({ address: target.host, port: target.port });
    return dialler(endpoint, this.#options)(() => {});
  }

  #open(target: HostAndPort, dialled: Dialled): Socket {
    const pod = this.#anyPod();
    const endpoint = pod ?? createEndpoint({ address: target.host, port: target.port });
    return dialler(endpoint, this.#options, pod && target)(dialled);
  }

  #anyPod(): Endpoint | undefined {
    const lease = this.#balancer.pick();
    if (lease !== undefined) {
      lease.end(outcomes.notStarted);
      return lease.endpoint;
    }
    // No pod is connected now, but a mock only needs an address.
    const [firstEndpoint] = this.#balancer.snapshot().endpoints;
    if (firstEndpoint === undefined) return undefined;
    const { hostname, port } = new URL(`http://${firstEndpoint.address}`);
    return createEndpoint({ address: hostname.replace(/^\[(.*)\]$/, '$1'), port: Number(port || 80) });
  }
}
