import type { Dispatcher } from 'undici';
import { type AppInterceptorOptions, appInterceptor } from '../adapter/undici/index.js';
import { discoveryOf, type EngineOptions, serviceOptionsOf, servicesRule, stockError } from './engine.js';

/** Balances what copies of undici of any supported version, and Node's own, give their global dispatcher. */
export interface UndiciEngine {
  /** @param dispatcher The dispatcher that gets requests for hosts that are no Service. */
  dispatch(dispatcher: Dispatcher, options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean;
}

/** @throws EVENKEEL_OPTION for invalid options in `EVENKEEL_CONFIG`. */
export function createEngine(options: EngineOptions): UndiciEngine {
  const { config } = options;
  const services = appInterceptor({
    services: servicesRule(options),
    options: serviceOptionsOf(config.fetch) as NonNullable<AppInterceptorOptions['options']>,
    discovery: discoveryOf(options),
  });
  return {
    dispatch(dispatcher, own, handler) {
      // The handler that came, not the one of the newer form that has waited for DNS in its place: undici 6 takes the older form only.
      // It hears twice that its request begins, as it would from a dispatcher that tries again.
      const dispatch = services((options) => dispatcher.dispatch(options, handler));
      return dispatch(own, withStockErrors(handler, String(own.origin)));
    },
  };
}

/** The names of all methods of a handler, in both of undici's forms. */
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

/** The caller's handler, which learns of errors as its own library would tell them. */
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
