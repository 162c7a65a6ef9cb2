import {
  type AcquireOptions,
  EvenkeelError,
  isEvenkeelError,
  type Lease,
  outcomes,
  type PickOptions,
} from '../../index.js';
import { type AttemptSource, Stopper } from '../kit/index.js';
import type { Service } from './service.js';
import type { MysqlServer } from './session.js';

/**
 * The order in which several services are tried for a call: in turn, at random, or always from the first one on. Within a service its
 * picker decides.
 */
export type ServiceSelector = 'RR' | 'RANDOM' | 'ORDER';

/** The services that may serve a call: one service, or any of several. */
export interface ServiceRoute {
  /** The only service, or the service whose options count for decisions made before a service is chosen. */
  readonly first: Service;
  /** Where the call's attempts get their servers: the balancer of the only service, or the balancers of all services. */
  readonly source: AttemptSource<MysqlServer>;
  /** Returns the service to which the server of a lease belongs. */
  serviceOf(lease: Lease<MysqlServer>): Service;
}

/** Creates the route over one or several services, in the order that the selector names. */
export function routeOver(services: readonly Service[], selector: ServiceSelector): ServiceRoute {
  return services.length === 1 ? routeTo(services[0] as Service) : joinedRoute(services, selector);
}

/** Creates the route to one service. */
function routeTo(service: Service): ServiceRoute {
  return { first: service, source: service.balancer, serviceOf: () => service };
}

/**
 * Creates the route over several services. Each call goes to the first service, in the selector's order, that can take it now. If none can,
 * the call waits for all services at once.
 */
function joinedRoute(services: readonly Service[], selector: ServiceSelector): ServiceRoute {
  const firstService = services[0] as Service;
  const { length } = services;
  let turn = 0;
  const start = (): number => {
    if (selector === 'ORDER') return 0;
    if (selector === 'RANDOM') return Math.floor(firstService.draw() * length);
    turn = (turn + 1) % length;
    return turn;
  };
  const pick = (options: PickOptions = {}): Lease<MysqlServer> | undefined => {
    const { avoid } = options;
    const from = start();
    let avoided: Lease<MysqlServer> | undefined;
    for (let step = 0; step < length; step++) {
      const lease = (services[(from + step) % length] as Service).balancer.pick(options);
      if (lease === undefined) continue;
      if (avoid?.has(lease.subchannel) !== true) {
        avoided?.end(outcomes.notStarted);
        return lease;
      }
      // The call was tried on this server before, so the server is used only if no service has another one.
      if (avoided === undefined) avoided = lease;
      else lease.end(outcomes.notStarted);
    }
    return avoided;
  };
  return {
    first: firstService,
    source: {
      name: services.map(({ balancer }) => balancer.name).join(','),
      clock: firstService.clock,
      retries: undefined,
      pick,
      acquire: async (options, stopper) => pick(options) ?? acquireAny(services, options, stopper),
    },
    serviceOf: ({ handle }) => services.find(({ transport }) => transport.has(handle)) ?? firstService,
  };
}

/** Waits until any of the services has a server, for all services at once. */
async function acquireAny(
  services: readonly Service[],
  options: AcquireOptions,
  stopper: Stopper,
): Promise<Lease<MysqlServer>> {
  const stoppers = services.map(() => new Stopper());
  const stop = (): void => {
    for (const each of stoppers) each.stop();
  };
  stopper.onStop = stop;
  if (stopper.isStopped) stop();
  let winner: Lease<MysqlServer> | undefined;
  const waits = services.map(async ({ balancer }, index) => {
    const source: AttemptSource<MysqlServer> = balancer;
    const lease = await source.acquire(options, stoppers[index] as Stopper);
    // Two services may have a server at one moment; the later of the two leases is given back.
    if (winner !== undefined) lease.end(outcomes.notStarted);
    winner ??= lease;
    stop();
    return winner;
  });
  try {
    return await Promise.any(waits);
  } catch (error) {
    options.signal?.throwIfAborted();
    throw stopper.isStopped ? stopper.reason : mostTelling((error as AggregateError).errors);
  } finally {
    stopper.onStop = undefined;
  }
}

/**
 * Chooses which of several services' errors is reported. That a service has servers but none to spare says more than that another service
 * has none.
 */
function mostTelling(errors: readonly unknown[]): unknown {
  const coded = errors.filter((error): error is EvenkeelError => isEvenkeelError(error));
  return coded.find(({ code }) => code === 'EVENKEEL_NOT_READY') ?? coded[0] ?? errors[0];
}

/** Creates the error for a pattern that matches no service. */
export function noService(pattern: string, names: readonly string[]): EvenkeelError {
  return new EvenkeelError(
    'EVENKEEL_OPTION',
    `no service is called ${JSON.stringify(pattern)}; ${names.includes('') ? 'the cluster was made without `services`' : `there are ${names.join(', ')}`}`,
  );
}

/** Whether a name matches a pattern in mysql2's syntax: `*` matches any text. */
export function matches(pattern: string, name: string): boolean {
  const source = pattern.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replace(/\*+/g, '.*');
  return new RegExp(`^${source}$`).test(name);
}
