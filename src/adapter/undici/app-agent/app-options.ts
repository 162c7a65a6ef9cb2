import type { Dispatcher } from 'undici';
import { type AppOptions, appTable, type ResolvedAppOptions, resolveAppOptions } from '../../http/app-options.js';
import {
  balancingTable,
  checkBalancingOptions,
  type OptionTable,
  optionTable,
  ownProperties,
  pickNames,
} from '../../kit/index.js';
import {
  type DispatcherOptions,
  type DispatcherSettings,
  dispatcherOptionNames,
  dispatcherTable,
  undiciConnectionTable,
  type WebSocketOptions,
} from '../options.js';
import { undiciTransport } from '../transport.js';

/**
 * Options for one Service of an app. They have no `fallbackDispatcher`, because a Service's dispatcher gets no requests for other hosts.
 */
export type ServiceOptions = Omit<DispatcherOptions, 'fallbackDispatcher'>;

/** Options of `appInterceptor`. */
export type AppInterceptorOptions = AppOptions<ServiceOptions>;

/** Options of `createAppAgent`. */
export interface AppAgentOptions extends AppInterceptorOptions {
  /**
   * Where requests for other hosts go; only for `createAppAgent`. Closing this dispatcher stays up to the caller. @defaultValue an undici
   * Agent of its own, created on first use
   */
  readonly fallbackDispatcher?: Dispatcher | undefined;
  /**
   * Limits for WebSockets to Services that have no `webSocket` option of their own; only for `createAppAgent`. WebSockets to other hosts
   * follow `fallbackDispatcher`, if there is one. @defaultValue undici's own limits
   */
  readonly webSocket?: WebSocketOptions | undefined;
}

type AppAgentSettings = (typeof appTable)['defaults'] &
  Pick<DispatcherSettings, 'fallbackDispatcher'> & {
    readonly webSocket: WebSocketOptions | undefined;
  };

export const appAgentTable: OptionTable<AppAgentSettings> = optionTable('options', {
  ...appTable.options,
  fallbackDispatcher: dispatcherTable.options.fallbackDispatcher,
  webSocket: { ...dispatcherTable.options.webSocket, default: undefined },
});

/** Fills in defaults and checks every option. Throws EVENKEEL_OPTION. */
export function resolveServiceOptions(options: AppInterceptorOptions): ResolvedAppOptions<ServiceOptions> {
  return resolveAppOptions(options, {
    names: dispatcherOptionNames.filter((name) => name !== 'fallbackDispatcher'),
    tlsNames: ['tls', 'allowH2'],
    plainNames: ['useH2c'],
    check: checkServiceOptions,
  });
}

function checkServiceOptions(options: ServiceOptions): void {
  dispatcherTable.resolveOwn(options, 'options.');
  checkBalancingOptions(pickNames(options, balancingTable.names));
  const { useH2c, ...connections } = ownProperties(pickNames(options, undiciConnectionTable.names));
  undiciTransport({ origin: 'https://service.namespace', ...connections });
  undiciTransport({ origin: 'http://service.namespace', useH2c });
}
