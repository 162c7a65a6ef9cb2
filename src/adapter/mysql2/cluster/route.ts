import type { Pool } from 'mysql2';
import {
  type AcquireOptions,
  EvenkeelError,
  isEvenkeelError,
  type Lease,
  outcomes,
  type PickOptions,
} from '../../../index.js';
import type { AttemptSource, RetryPolicy } from '../../kit/index.js';
import type { Service } from './service.js';

/** In which order the services a pattern names are asked. Within a service its picker decides. */
export type ServiceSelector = 'RR' | 'RANDOM' | 'ORDER';

/** Where the calls of one name (a service, or a pattern over several) may go. */
export interface Route extends AttemptSource<Pool> {
  /** For what has to be said before a service is chosen. */
  readonly first: Service;
  /** Whose endpoint it is. */
  serviceOf(lease: Lease<Pool>): Service;
}

/** One service. */
export class SingleRoute implements Route {
  readonly first: Service;

  constructor(service: Service) {
    this.first = service;
  }

  get retries(): RetryPolicy {
    return this.first.balancer.retries;
  }

  pick(options?: PickOptions<Pool>): Lease<Pool> | undefined {
    return this.first.balancer.pick(options);
  }

  acquire(options: AcquireOptions<Pool>): Promise<Lease<Pool>> {
    return this.first.balancer.acquire(options);
  }

  serviceOf(): Service {
    return this.first;
  }
}

/**
 * Several services: each call goes to the first, in the order of the selector, that has a server free. If none has, the
 * call waits for all of them at once.
 */
export class JoinedRoute implements Route {
  readonly first: Service;
  readonly retries: undefined = undefined;
  readonly #services: readonly Service[];
  readonly #selector: ServiceSelector;
  readonly #draw: () => number;
  #turn = 0;

  constructor(services: readonly Service[], selector: ServiceSelector, draw: () => number) {
    this.first = services[0] as Service;
    this.#services = services;
    this.#selector = selector;
    this.#draw = draw;
  }

  pick(options: PickOptions<Pool> = {}): Lease<Pool> | undefined {
    const { avoid } = options;
    const { length } = this.#services;
    const start = this.#start(length);
    let avoided: Lease<Pool> | undefined;
    for (let step = 0; step < length; step++) {
      const service = this.#services[(start + step) % length] as Service;
      const lease = service.balancer.pick(options);
      if (lease === undefined) continue;
      if (avoid?.has(lease.subchannel) !== true) {
        avoided?.end(outcomes.notStarted);
        return lease;
      }
      // It was tried before: only if nobody else has one that was not.
      if (avoided === undefined) avoided = lease;
      else lease.end(outcomes.notStarted);
    }
    return avoided;
  }

  async acquire(options: AcquireOptions<Pool>): Promise<Lease<Pool>> {
    const atOnce = this.pick(options);
    if (atOnce !== undefined) return atOnce;
    const { signal } = options;
    const limits = this.#services.map(() => new AbortController());
    const stop = (): void => {
      for (const limit of limits) limit.abort(signal?.reason);
    };
    signal?.addEventListener('abort', stop, { once: true });
    if (signal?.aborted) stop();
    let winner: Lease<Pool> | undefined;
    const waits = this.#services.map(async (service, index) => {
      const lease = await service.balancer.acquire({ ...options, signal: limits[index]?.signal });
      // Two may be served at the same moment.
      if (winner !== undefined) lease.end(outcomes.notStarted);
      winner ??= lease;
      stop();
      return winner;
    });
    try {
      return await Promise.any(waits);
    } catch (error) {
      signal?.throwIfAborted();
      throw worst((error as AggregateError).errors);
    } finally {
      signal?.removeEventListener('abort', stop);
    }
  }

  serviceOf(lease: Lease<Pool>): Service {
    return this.#services.find(({ transport }) => transport.serverOf(lease.handle) !== undefined) ?? this.first;
  }

  #start(length: number): number {
    if (this.#selector === 'ORDER') return 0;
    if (this.#selector === 'RANDOM') return Math.floor(this.#draw() * length);
    this.#turn = (this.#turn + 1) % length;
    return this.#turn;
  }
}

/** Of what several services said, what tells most: one that has servers but none to spare, before one that has none. */
function worst(errors: readonly unknown[]): unknown {
  const coded = errors.filter((error): error is EvenkeelError => isEvenkeelError(error));
  return coded.find(({ code }) => code === 'EVENKEEL_NOT_READY') ?? coded[0] ?? errors[0];
}

export function noService(pattern: string, names: readonly string[]): EvenkeelError {
  return new EvenkeelError(
    'EVENKEEL_OPTION',
    `no service is called ${JSON.stringify(pattern)}; ${names.includes('') ? 'the cluster was made without `services`' : `there are ${names.join(', ')}`}`,
  );
}
