import type { ClientRequest } from 'node:http';
import { globalAgent } from 'node:https';
import { type ConnectionOptions, checkServerIdentity } from 'node:tls';
import type { RequestOptions } from '../http/internals.js';
import { pickNames } from '../kit/index.js';

/** TLS options of a request that decide with which other requests it shares a connection, as for Node's own Agent. */
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

/** Options of a request that say how to connect. Only Node, or the caller, can do what they say. */
const connectionOptions = ['socketPath', 'createConnection', 'lookup', 'localAddress', 'localPort', 'family'] as const;
/** Options of a request over TLS that say how to connect. */
const tlsConnectionOptions = ['secureContext', 'ALPNProtocols', 'socket', 'pskCallback'] as const;

const SLASH = 47;

/** Whether a request says itself how to connect: through a proxy, through a tunnel, or as its options describe. */
export function configuresConnection(
  protocol: string,
  { path, method }: ClientRequest,
  options: RequestOptions,
): boolean {
  if (path.charCodeAt(0) !== SLASH || method === 'CONNECT' || names(options, connectionOptions)) return true;
  if (protocol !== 'https:') return false;
  const { checkServerIdentity: check = checkServerIdentity } = options as ConnectionOptions;
  // The client `got` always sets this option, to the function that Node uses by default. That does not count as a way of its own.
  return check !== checkServerIdentity || names(options, tlsConnectionOptions);
}

function names(options: object, wanted: readonly string[]): boolean {
  const values = options as Readonly<Record<string, unknown>>;
  // A `family` of 0 means both address families.
  return wanted.some((name) => values[name] !== undefined && values[name] !== null && values[name] !== 0);
}

/** The TLS options of a request; undefined if it has none, or only defaults. */
export function tlsOf(options: RequestOptions): ConnectionOptions | undefined {
  const tlsOptions = pickNames(options as ConnectionOptions, tlsNames) as { rejectUnauthorized?: boolean | undefined };
  if (tlsOptions.rejectUnauthorized === true) delete tlsOptions.rejectUnauthorized;
  for (const name in tlsOptions) if (tlsOptions[name as keyof typeof tlsOptions] !== undefined) return tlsOptions;
  return undefined;
}

/** A text that differs for different TLS options, so that requests with different options do not share a connection. */
export function identityOf(tls: ConnectionOptions): string {
  const name = globalAgent.getName({ ...tls, host: '', port: '' } as never);
  return `${name}:${tls.passphrase ?? ''}`;
}
