import { createHash } from 'node:crypto';
import { BlockList, isIP } from 'node:net';
import { ResolveError } from '../../../errors.js';
import { checkFunction, checkKeys, checkString, optionError } from '../../../runtime/check.js';
import type { Clock } from '../../../runtime/clock.js';
import { ownProperties } from '../../../runtime/own-properties.js';
import { withoutTrailing } from '../../../runtime/without-trailing.js';
import type { ApiAccess, ApiSession, ApiTarget } from './api-access.js';
import { CredentialFile } from './credential-file.js';

/** The credentials for an API server that the user names by its URL. Files among them are read again when they change. */
export interface ApiCredentials {
  /** A bearer token, or a function that returns the current one before each request. */
  readonly token?: string | (() => string | Promise<string>);
  /** A file with a bearer token. It is read again when it changes, as the token of a service account does in a pod. */
  readonly tokenFile?: string;
  /**
   * The certificate authority that must have signed the server's certificate, in PEM format. @defaultValue the authorities that Node.js
   * trusts
   */
  readonly ca?: string;
  /** A file with the certificate authority that must have signed the server's certificate, in PEM format. */
  readonly caFile?: string;
  /** A client certificate in PEM format; needs `key` or `keyFile`, too. */
  readonly cert?: string;
  /** A file with the client certificate, PEM. */
  readonly certFile?: string;
  /** The client certificate's private key, PEM. */
  readonly key?: string;
  /** A file with the client certificate's private key, PEM. */
  readonly keyFile?: string;
  /** The name to verify in the server's certificate. @defaultValue the host of the URL */
  readonly serverName?: string;
}

const credentialKeys = [
  'token',
  'tokenFile',
  'ca',
  'caFile',
  'cert',
  'certFile',
  'key',
  'keyFile',
  'serverName',
] as const;

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** A number for each token function: functions cannot be part of the text that identifies an access, so their number is. */
const functionIds = new WeakMap<object, number>();
let nextFunctionId = 1;

/** Creates the access to an API server from its URL and credentials. Throws EVENKEEL_OPTION. */
export function explicitAccess(apiServer: unknown, callersCredentials: ApiCredentials = {}): ApiAccess {
  const server = checkServer(apiServer);
  // The credentials are read for every request, and accesses with equal ones are shared, so the caller's object is copied.
  const credentials = ownProperties(callersCredentials);
  checkCredentials(credentials);
  const { protocol, hostname } = new URL(server);
  const carriesToken = credentials.token !== undefined || credentials.tokenFile !== undefined;
  if (protocol === 'http:' && carriesToken && !isLoopback(hostname)) {
    throw optionError('apiServer', 'an https: URL when a token goes with it (http: only on loopback)', server);
  }
  return {
    key: `${server} ${digest(credentials)}`,
    open: (clock) => new ExplicitSession(server, credentials, clock),
  };
}

class ExplicitSession implements ApiSession {
  readonly #server: string;
  readonly #credentials: ApiCredentials;
  readonly #files = new Map<string, CredentialFile>();
  readonly #clock: Clock;

  constructor(server: string, credentials: ApiCredentials, clock: Clock) {
    this.#server = server;
    this.#credentials = credentials;
    this.#clock = clock;
  }

  async target(): Promise<ApiTarget> {
    const { token, tokenFile, ca, caFile, cert, certFile, key, keyFile, serverName } = this.#credentials;
    try {
      const bearer = typeof token === 'function' ? await token() : (token ?? (await this.#read(tokenFile)));
      const tls = {
        ca: ca ?? (await this.#read(caFile)),
        cert: cert ?? (await this.#read(certFile)),
        key: key ?? (await this.#read(keyFile)),
        servername: serverName,
      };
      return { server: this.#server, headers: bearer ? { authorization: `Bearer ${bearer}` } : {}, tls };
    } catch (cause) {
      throw new ResolveError(`the credentials for ${this.#server} cannot be read`, { cause });
    }
  }

  refused(sentAtMs: number): void {
    for (const file of this.#files.values()) file.expire(sentAtMs);
  }

  async namespace(): Promise<undefined> {}

  async #read(path: string | undefined): Promise<string | undefined> {
    if (path === undefined) return undefined;
    let file = this.#files.get(path);
    if (file === undefined) {
      file = new CredentialFile(path, this.#clock);
      this.#files.set(path, file);
    }
    return await file.read();
  }
}

function checkServer(value: unknown): string {
  const text = checkString('apiServer', value);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const fits = url !== undefined && /^https?:$/.test(url.protocol) && url.username === '' && url.search === '';
  if (!fits) throw optionError('apiServer', 'an http: or https: URL', value);
  return `${url.origin}${withoutTrailing(url.pathname, '/')}`;
}

function checkCredentials(credentials: ApiCredentials): void {
  checkKeys('credentials', credentials, credentialKeys);
  for (const name of credentialKeys) {
    const value = credentials[name];
    if (value === undefined) continue;
    if (name === 'token' && typeof value !== 'string') checkFunction('credentials.token', value);
    else checkString(`credentials.${name}`, value);
  }
  for (const name of ['token', 'ca', 'cert', 'key'] as const) {
    if (credentials[name] !== undefined && credentials[`${name}File`] !== undefined) {
      throw optionError(`credentials.${name}File`, `left out when credentials.${name} is given`, 'both');
    }
  }
}

function isLoopback(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, '');
  const family = isIP(host);
  if (family === 0) return host === 'localhost' || host.endsWith('.localhost');
  return loopback.check(host, family === 4 ? 'ipv4' : 'ipv6');
}

function digest(credentials: ApiCredentials): string {
  const parts = credentialKeys.map((name) => {
    const value = credentials[name];
    if (typeof value !== 'function') return value ?? '';
    const id = functionIds.get(value) ?? nextFunctionId++;
    functionIds.set(value, id);
    return `function ${id}`;
  });
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}
