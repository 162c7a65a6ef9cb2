import type { ConnectionOptions } from 'node:tls';
import type { Agent, Dispatcher } from 'undici';
import { withTls } from '../adapter/http/app-options.js';
import { balancerDefaults, ownProperties } from '../adapter/kit/index.js';
import { interceptorWith } from '../adapter/undici/app-agent/app-agent.js';
import { resolveServiceOptions, type ServiceOptions } from '../adapter/undici/app-agent/app-options.js';
import type { AppInterceptor, AppInterceptorOptions } from '../adapter/undici/index.js';
import { discoveryOf, type EngineOptions, serviceOptionsOf, servicesRule, stockError } from './engine.js';

/** Balances the requests that copies of undici of any supported version, and Node's own, pass to their global dispatcher. */
export interface UndiciEngine {
  /**
   * @param stock Sends requests for hosts that are no Service.
   * @param own The options with which the app made its Agent; always the same object.
   */
  dispatch(
    stock: Dispatcher['dispatch'],
    own: Agent.Options,
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
  ): boolean;
}

/** @throws EVENKEEL_OPTION for invalid options in `EVENKEEL_CONFIG`. */
export function createEngine(options: EngineOptions): UndiciEngine {
  const configured = {
    options: serviceOptionsOf(options.config.fetch, options.giveUp) as NonNullable<AppInterceptorOptions['options']>,
  };
  const { optionsOf } = resolveServiceOptions(configured);
  const common = { services: servicesRule(options), discovery: discoveryOf(options) };
  const open = (own: AppInterceptorOptions): AppInterceptor =>
    interceptorWith({ ...resolveServiceOptions(own), optionsFailed: options.giveUp });
  const shared = open({ ...common, ...configured });
  /** For the options of each Agent that the app made: the object that balances the requests sent with these options. */
  const interceptors = new WeakMap<Agent.Options, AppInterceptor>();
  const interceptorOf = (own: Agent.Options): AppInterceptor => {
    let interceptor = interceptors.get(own);
    if (interceptor === undefined) {
      const settings = settingsOf(own);
      const connectTimeoutMs = connectTimeoutOf(own);
      const tls = tlsOf(own);
      interceptor =
        tls === undefined && connectTimeoutMs === undefined && Object.keys(settings).length === 0
          ? shared
          : open({
              ...common,
              options: (origin) => {
                const merged = withConnectTimeout({ ...optionsOf(origin), ...settings }, connectTimeoutMs);
                return origin.protocol === 'https:' ? withTls(merged, tls) : merged;
              },
            });
      interceptors.set(own, interceptor);
    }
    return interceptor;
  };
  return {
    dispatch(stock, own, request, handler) {
      // The handler that came, not the one of the newer form that has waited for DNS in its place: undici 6 takes the older form only.
      // It hears twice that its request begins, as it would from a dispatcher that tries again.
      const dispatch = interceptorOf(own)((passed) => stock(passed, handler));
      return dispatch(request, withStockErrors(handler, String(request.origin)));
    },
  };
}

/** Settings of an app's Agent that stay in force. */
function settingsOf(own: Agent.Options): ServiceOptions {
  const all = {
    connections: own.connections,
    headersTimeoutMs: own.headersTimeout,
    bodyTimeoutMs: own.bodyTimeout,
    maxHeaderSize: own.maxHeaderSize,
    // undici's -1 is no limit, as with us none.
    maxResponseSize: own.maxResponseSize === -1 ? undefined : own.maxResponseSize,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => typeof value === 'number'));
}

/** How long an app's Agent lets a connection take to open, in ms; undefined if the app does not say so. */
function connectTimeoutOf({ connect, connectTimeout }: Agent.Options): number | undefined {
  const timeoutMs = (typeof connect === 'object' ? ownProperties(connect)?.timeout : undefined) ?? connectTimeout;
  if (typeof timeoutMs !== 'number') return undefined;
  // undici's 0 is no limit.
  return timeoutMs === 0 ? MAX_CONNECT_TIMEOUT_MS : Math.min(timeoutMs, MAX_CONNECT_TIMEOUT_MS);
}

/** The most that `pool.connectTimeoutMs` takes. */
const MAX_CONNECT_TIMEOUT_MS = 600_000;

/** The least time for which a request waits for a pod, in ms: the first one also waits until the pods are found. */
const MIN_WAIT_MS = 1_000;

/**
 * Limits how long a connection may take to open. With undici a request fails when its connection has taken so long, so it waits as long
 * for a pod. With `connections` a request may also wait for another to end, which undici does not limit: then the wait gets no shorter.
 */
function withConnectTimeout(options: ServiceOptions, connectTimeoutMs: number | undefined): ServiceOptions {
  if (connectTimeoutMs === undefined) return options;
  const { connections, pool, waitTimeoutMs = balancerDefaults.waitTimeoutMs } = ownProperties(options);
  const leastMs = connections === undefined ? MIN_WAIT_MS : waitTimeoutMs;
  return {
    ...options,
    pool: { ...pool, connectTimeoutMs },
    waitTimeoutMs: Math.max(connectTimeoutMs, leastMs),
  };
}

/** What `connect` of an Agent says about connections rather than about TLS. */
const connectNames = ['timeout', 'allowH2', 'maxCachedSessions', 'socketPath', 'keepAlive', 'keepAliveInitialDelay'];

function tlsOf({ connect }: Agent.Options): ConnectionOptions | undefined {
  if (typeof connect !== 'object' || connect === null) return undefined;
  const tls = Object.entries(connect).filter(([name, value]) => value !== undefined && !connectNames.includes(name));
  return tls.length === 0 ? undefined : Object.fromEntries(tls);
}

/** The names of all methods that a handler may have, in both forms that undici knows. */
const methods = [
  'onRequestStart',
  'onRequestUpgrade',
  'onResponseStarted',
  'onResponseStart',
  'onResponseData',
  'onResponseEnd',
  'onBodySent',
  'onRequestSent',
  'onConnect',
  'onHeaders',
  'onData',
  'onComplete',
  'onUpgrade',
] as const;

/** Wraps the caller's handler, so that it gets errors as its own library would report them. */
function withStockErrors(handler: Dispatcher.DispatchHandler, origin: string): Dispatcher.DispatchHandler {
  const own = handler as Record<string, ((...args: unknown[]) => unknown) | undefined>;
  const relay: Record<string, unknown> = {};
  for (const name of methods) {
    const method = own[name];
    if (typeof method === 'function') relay[name] = method.bind(handler);
  }
  const errorOf = (error: unknown): Error => stockError(error as Error, origin, 'UND_ERR_CONNECT_TIMEOUT');
  if (typeof own.onError === 'function') relay.onError = (error: unknown) => own.onError?.call(handler, errorOf(error));
  if (typeof own.onResponseError === 'function') {
    relay.onResponseError = (controller: unknown, error: unknown) =>
      own.onResponseError?.call(handler, controller, errorOf(error));
  }
  return relay as Dispatcher.DispatchHandler;
}
