import type { Dispatcher } from 'undici';
import { type AppOptions, type ResolvedAppOptions, resolveAppOptions } from '../../http/app-options.js';
import { checkClusterDomain } from '../../http/origin.js';
import {
  balancingOptionNames,
  checkAskForReports,
  checkBalancingOptions,
  checkFunction,
  Propagation,
  pickNames,
} from '../../kit/index.js';
import {
  callRules,
  type DispatcherOptions,
  dispatcherOptionNames,
  undiciConnectionOptionNames,
  type WebSocketOptions,
  webSocketLimits,
} from '../options.js';
import { undiciTransport } from '../transport.js';

/** How one Service is balanced. It never gets requests for other hosts, so it has no `fallbackDispatcher`. */
export type ServiceOptions = Omit<DispatcherOptions, 'fallbackDispatcher'>;

/** Options of `appInterceptor`. */
export type AppInterceptorOptions = AppOptions<ServiceOptions>;

/** Options of `createAppAgent`. */
export interface AppAgentOptions extends AppInterceptorOptions {
  /**
   * Where all other requests go. Closing it stays up to the caller.
   * @defaultValue an undici Agent of its own, created on first use
   */
  readonly fallbackDispatcher?: Dispatcher | undefined;
  /**
   * Limits for WebSockets to Services without their own setting. WebSockets to other hosts follow `fallbackDispatcher`, if
   * given.
   * @defaultValue undici's own limits
   */
  readonly webSocket?: WebSocketOptions | undefined;
}

/** Fills in defaults and checks everything. Throws EVENKEEL_OPTION. */
export function resolveServiceOptions(options: AppInterceptorOptions): ResolvedAppOptions<ServiceOptions> {
  return resolveAppOptions(options, {
    names: dispatcherOptionNames.filter((name) => name !== 'fallbackDispatcher'),
    tlsNames: ['tls', 'allowH2'],
    plainNames: ['useH2c'],
    check: checkServiceOptions,
  });
}

function checkServiceOptions(options: ServiceOptions): void {
  const { key, priority, clusterDomain, webSocket } = options;
  if (key !== undefined) checkFunction('options.key', key);
  if (priority !== undefined) checkFunction('options.priority', priority);
  checkAskForReports('options.askForReports', options.askForReports);
  new Propagation(options.propagate);
  if (clusterDomain !== undefined) checkClusterDomain(clusterDomain);
  checkBalancingOptions(pickNames(options, balancingOptionNames));
  callRules(options);
  webSocketLimits(webSocket);
  const { useH2c, ...connections } = pickNames(options, undiciConnectionOptionNames);
  undiciTransport({ origin: 'https://service.namespace', ...connections });
  undiciTransport({ origin: 'http://service.namespace', useH2c });
}
