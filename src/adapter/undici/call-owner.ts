import type { Duplex } from 'node:stream';
import type { Dispatcher, Pool } from 'undici';
import type { Balancer, Clock, Lease } from '../../index.js';
import type { CallFacts, Propagation } from '../kit/index.js';

/** What the calls of one dispatcher share. */
export interface CallOwner {
  readonly balancer: Balancer<Pool>;
  readonly clock: Clock;
  /** The Service as its callers know it, for messages. */
  readonly origin: string;
  /** The balancer is closed: requests stay on the pods they have. */
  readonly isClosing: boolean;
  /** The error the dispatcher was destroyed with; its calls fail with it. */
  readonly destroyedBy: Error | undefined;
  readonly propagation: Propagation;
  /** A pod reported how busy it is. */
  heardReport(): void;
  /** A call started, or stopped, waiting for an endpoint. */
  waits(): void;
  served(): void;
  /** A request on `lease` died with its socket. */
  lost(lease: Lease<Pool>, error: Error): void;
  /** A connection became its caller's own. Call the result, if there is one, when it is closed. */
  upgraded(lease: Lease<Pool>, socket: Duplex, options: Dispatcher.DispatchOptions): (() => void) | undefined;
  /** A handler threw this when it was told that its request failed. Never throws. */
  handlerThrew(error: unknown): void;
}

/** What traces say of a request. */
export function factsOf({ origin: service }: CallOwner, { method }: Dispatcher.DispatchOptions): CallFacts {
  return { protocol: 'http', method, service };
}
