import type { Dispatcher } from 'undici';
import { type AppOptions, appTable, type ResolvedAppOptions, resolveAppOptions } from '../../http/app-options.js';
import { balancingTable, checkBalancingOptions, type OptionTable, optionTable, pickNames } from '../../kit/index.js';
import {
  type DispatcherOptions,
  type DispatcherSettings,
  dispatcherOptionNames,
  dispatcherTable,
  undiciConnectionTable,
  type WebSocketOptions,
} from '../options.js';
import { undiciTransport } from '../transport.js';

/** How one Service is balanced. It never gets requests for other hosts, so it has no `fallbackDispatcher`. */
export type ServiceOptions = Omit<DispatcherOptions, 'fallbackDispatcher'>;

/** Options of `appInterceptor`. */
export type AppInterceptorOptions = AppOptions<ServiceOptions>;

/** Options of `createAppAgent`. */
export interface AppAgentOptions extends AppInterceptorOptions {
  /**
   * Of `createAppAgent` only: where all other requests go. Closing it stays up to the caller.
   * @defaultValue an undici Agent of its own, created on first use
   */
  readonly fallbackDispatcher?: Dispatcher | undefined;
  /**
   * Of `createAppAgent` only: limits for WebSockets to Services without their own setting. WebSockets to other hosts follow
   * `fallbackDispatcher`, if given. @defaultValue undici's own limits
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
  dispatcherTable.resolveOwn(options, 'options.');
  checkBalancingOptions(pickNames(options, balancingTable.names));
  const { useH2c, ...connections } = pickNames(options, undiciConnectionTable.names);
  undiciTransport({ origin: 'https://service.namespace', ...connections });
  undiciTransport({ origin: 'http://service.namespace', useH2c });
}
