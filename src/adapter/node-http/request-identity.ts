import type { ClientRequest } from 'node:http';
import { globalAgent } from 'node:https';
import { type ConnectionOptions, checkServerIdentity } from 'node:tls';
import type { RequestOptions } from '../http/internals.js';
import { pickNames } from '../kit/index.js';

/** Options of a request that decide with whom it shares a connection over TLS, as for Node's own Agent. */
const tlsNames = [
  'ca',
  'cert',
  'ciphers',
  'crl',
  'dhparam',
  'ecdhCurve',
  'honorCipherOrder',
  'key',
  'maxVersion',
  'minVersion',
  'passphrase',
  'pfx',
  'rejectUnauthorized',
  'secureOptions',
  'secureProtocol',
  'servername',
  'sessionIdContext',
  'sigalgs',
] as const satisfies readonly (keyof ConnectionOptions)[];

/** Options of a request that say how it is to be connected. Only Node, or the caller, can do as they say. */
const wayNames = ['socketPath', 'createConnection', 'lookup', 'localAddress', 'localPort', 'family'] as const;
/** Options of a request over TLS that say how it is to be connected. */
const tlsWayNames = ['secureContext', 'ALPNProtocols', 'socket', 'pskCallback'] as const;

const SLASH = 47;

/** Whether a request has a way of its own: to a proxy, through a tunnel, or over a connection that its options describe. */
export function hasOwnWay(protocol: string, { path, method }: ClientRequest, options: RequestOptions): boolean {
  if (path.charCodeAt(0) !== SLASH || method === 'CONNECT' || names(options, wayNames)) return true;
  if (protocol !== 'https:') return false;
  const { checkServerIdentity: check = checkServerIdentity } = options as ConnectionOptions;
  // got passes the function that Node uses anyway.
  return check !== checkServerIdentity || names(options, tlsWayNames);
}

function names(options: object, wanted: readonly string[]): boolean {
  const values = options as Readonly<Record<string, unknown>>;
  // 0 as a family means both.
  return wanted.some((name) => values[name] !== undefined && values[name] !== null && values[name] !== 0);
}

/** The TLS options of a request; undefined if it has none, or only what holds anyway. */
export function tlsOf(options: RequestOptions): ConnectionOptions | undefined {
  const own = pickNames(options as ConnectionOptions, tlsNames) as { rejectUnauthorized?: boolean | undefined };
  if (own.rejectUnauthorized === true) delete own.rejectUnauthorized;
  for (const name in own) if (own[name as keyof typeof own] !== undefined) return own;
  return undefined;
}

/** A text that differs for TLS options that differ, so that they do not share a connection. */
export function identityOf(tls: ConnectionOptions): string {
  const name = globalAgent.getName({ ...tls, host: '', port: '' } as never);
  return `${name}:${tls.passphrase ?? ''}`;
}
