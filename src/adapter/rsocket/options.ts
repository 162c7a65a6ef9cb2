import type { ConnectionOptions } from 'node:tls';
import type { ConnectorConfig, RSocket } from 'rsocket-core';
import type { BalancingOptions, Clock } from '../../index.js';
import { systemClock } from '../../index.js';
import { checkBoolean, checkKeys, checkNumber, optionError } from '../kit/index.js';

/** Options of `createRSocket`. */
export interface RSocketOptions extends BalancingOptions {
  /**
   * What each connection begins with, as for the library's `RSocketConnector`: payload and MIME types. A keep-alive frame is
   * sent every `keepAlive` ms (default 20000); a connection without any from the server for `lifetime` ms (default 90000)
   * ends.
   */
  readonly setup?: ConnectorConfig['setup'] | undefined;
  /** How large a frame may be, as for the library's `RSocketConnector`. @defaultValue no fragmentation */
  readonly fragmentation?: ConnectorConfig['fragmentation'] | undefined;
  /** Answers what servers ask of this client, on every connection. @defaultValue they get an error */
  readonly responder?: Partial<RSocket> | undefined;
  /**
   * Whether servers grant how many requests they take (LEASE frames). Client and server have to agree: a server refuses the
   * connection otherwise. @defaultValue false
   */
  readonly lease?: boolean | undefined;
  /** Settings of Node's `tls.connect`; without them connections are plain. @defaultValue none */
  readonly tls?: ConnectionOptions | undefined;
}

/** Names of `RSocketOptions` that are not those of every balancer. */
export const rsocketOptionNames: readonly (keyof RSocketOptions)[] = Object.freeze([
  'setup',
  'fragmentation',
  'responder',
  'lease',
  'tls',
] as const);

/** What a connection is opened with, complete and checked. */
export interface ConnectionSettings {
  readonly setup: NonNullable<ConnectorConfig['setup']> & { readonly keepAlive: number; readonly lifetime: number };
  readonly fragmentation: NonNullable<ConnectorConfig['fragmentation']>;
  readonly responder: Partial<RSocket>;
  readonly lease: boolean;
  readonly tls: ConnectionOptions | undefined;
  readonly clock: Clock;
}

const setupNames = ['payload', 'dataMimeType', 'metadataMimeType', 'keepAlive', 'lifetime'];

/** The longest time a frame can tell, in ms. */
const MAX_MS = 0x7fffffff;

/** Fills in defaults and checks everything. Throws EVENKEEL_OPTION that names the field. */
export function connectionSettings(options: RSocketOptions): ConnectionSettings {
  const { setup = {}, fragmentation = {}, responder = {}, tls, clock = systemClock } = options;
  checkKeys('setup', setup, setupNames);
  const keepAlive = checkNumber('setup.keepAlive', setup.keepAlive, 20_000, { above: 0, max: MAX_MS, integer: true });
  const bounds = { above: keepAlive, max: MAX_MS, integer: true };
  const lifetime = checkNumber('setup.lifetime', setup.lifetime, Math.max(90_000, keepAlive + 1), bounds);
  checkKeys('fragmentation', fragmentation, ['maxOutboundFragmentSize']);
  const { maxOutboundFragmentSize: size } = fragmentation;
  if (size !== 0) checkNumber('fragmentation.maxOutboundFragmentSize', size, 0, { min: 64, integer: true });
  if (typeof responder !== 'object' || responder === null) throw optionError('responder', 'an object', responder);
  if (tls !== undefined && (typeof tls !== 'object' || tls === null)) {
    throw optionError('tls', 'an object as for tls.connect', tls);
  }
  return {
    setup: { ...setup, keepAlive, lifetime },
    fragmentation: { ...fragmentation },
    responder,
    lease: checkBoolean('lease', options.lease, false),
    tls,
    clock,
  };
}
