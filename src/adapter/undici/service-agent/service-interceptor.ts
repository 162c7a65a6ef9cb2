import type { Dispatcher, Pool } from 'undici';
import type { Balancer } from '../../../index.js';
import { checkRuntime } from '../check-runtime.js';
import { resolveServiceOptions, type ServiceInterceptorOptions } from './service-options.js';
import { type ServiceAgentSnapshot, ServiceRouter } from './service-router.js';

/** An interceptor for `compose`, with what there is to see and to close. */
export interface ServiceInterceptor extends AsyncDisposable {
  (dispatch: Dispatcher.Dispatch): Dispatcher.Dispatch;
  /** The balancers of the Services in use, by the origin each was first called by. */
  readonly balancers: ReadonlyMap<string, Balancer<Pool>>;
  /** What is balanced, what is not, and why. */
  snapshot(): ServiceAgentSnapshot;
  /** Lets running requests to Services finish, then closes their connections. Later requests pass to the wrapped dispatcher. */
  close(): Promise<void>;
  /** The same, but running requests are cut. */
  destroy(error?: Error | null): Promise<void>;
}

/**
 * What `createServiceAgent` does, as an interceptor for an Agent you already have: requests to Services go to their pods,
 * everything else passes to the wrapped dispatcher. Compose it first, so that the other interceptors lie over both. One
 * interceptor may be composed with several dispatchers, which then share its Services.
 *
 * @throws EVENKEEL_OPTION for an option that does not fit.
 * @example
 * const services = serviceInterceptor();
 * const agent = new Agent({ keepAliveTimeout: 10_000 }).compose(services, interceptors.retry());
 * await services.close();
 */
export function serviceInterceptor(options: ServiceInterceptorOptions = {}): ServiceInterceptor {
  checkRuntime('serviceInterceptor');
  const router = new ServiceRouter(resolveServiceOptions(options), {
    opened: () => {},
    drained: () => {},
    upgrading: (handler) => handler,
  });
  const intercept = (dispatch: Dispatcher.Dispatch): Dispatcher.Dispatch => {
    // undici insists on a function of two arguments.
    return (own, handler) => router.dispatch(own, handler, dispatch);
  };
  return Object.defineProperties(intercept, {
    balancers: { get: () => router.balancers },
    snapshot: { value: () => router.snapshot() },
    close: { value: () => router.close() },
    destroy: { value: (error?: Error | null) => router.destroy(error ?? null) },
    [Symbol.asyncDispose]: { value: () => router.close() },
  }) as ServiceInterceptor;
}
