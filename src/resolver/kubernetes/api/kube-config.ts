import { asError, ResolveError } from '../../../errors.js';
import { optionError, quoted, withoutSecrets } from '../../../runtime/check.js';
import { withoutTrailing } from '../../../runtime/without-trailing.js';
import type { ApiAccess, ApiSession, ApiTarget } from './api-access.js';

/** The methods of a `KubeConfig` of `@kubernetes/client-node` that evenkeel uses. */
export interface KubeConfigLike {
  /** Returns the cluster of the current context; `server` is the URL of its API server. Null means that the kubeconfig names none. */
  getCurrentCluster(): { readonly server: string } | null;
  /**
   * Adds certificates and an Authorization header to the options of a request. May run a program that the kubeconfig names, to get
   * credentials.
   */
  applyToHTTPSOptions(options: Record<string, unknown>): Promise<void>;
  /** Returns the context with this name. Its namespace is used if the options name none. */
  getContextObject?(name: string): { readonly namespace?: string } | null;
  /** The name of the context that `getContextObject` returns. */
  getCurrentContext?(): string;
  /** Returns the user whose credentials are used; null means none. */
  getCurrentUser?(): object | null;
}

const ids = new WeakMap<object, number>();
let nextId = 1;

/**
 * Creates the access to an API server from a loaded kubeconfig, with whatever credentials it has: client certificates, tokens, OIDC, or
 * programs that return credentials. Throws EVENKEEL_OPTION.
 */
export function kubeConfigAccess(kubeConfig: KubeConfigLike): ApiAccess {
  if (typeof (kubeConfig as Partial<KubeConfigLike> | null)?.applyToHTTPSOptions !== 'function') {
    throw optionError('kubeConfig', 'a loaded KubeConfig of @kubernetes/client-node', kubeConfig);
  }
  const id = ids.get(kubeConfig) ?? nextId++;
  ids.set(kubeConfig, id);
  return { key: `kubeconfig object ${id}`, open: () => new KubeConfigSession(kubeConfig) };
}

class KubeConfigSession implements ApiSession {
  readonly #config: KubeConfigLike;

  constructor(config: KubeConfigLike) {
    this.#config = config;
  }

  async target(): Promise<ApiTarget> {
    const { server, authorization } = splitServer(this.#config.getCurrentCluster()?.server);
    // This may run a program that the kubeconfig names. It is called before every request, so that an expired token is renewed.
    const applied: Record<string, unknown> = {};
    try {
      await this.#config.applyToHTTPSOptions(applied);
    } catch (cause) {
      throw new ResolveError(`the kubeconfig gives no credentials: ${withoutSecrets(asError(cause).message)}`, {
        cause,
      });
    }
    const headers = headersOf(applied);
    if (authorization !== undefined) headers.authorization ??= authorization;
    const { ca, cert, key, passphrase, servername } = applied;
    if (headers.authorization === undefined && cert === undefined && key === undefined) {
      refuseNobody(this.#config, server);
    }
    const text = (value: unknown): string | undefined =>
      Buffer.isBuffer(value) ? value.toString('utf8') : typeof value === 'string' ? value : undefined;
    return {
      server,
      headers,
      tls: {
        ca: text(ca),
        cert: text(cert),
        key: text(key),
        passphrase: text(passphrase),
        servername: text(servername),
        ...(applied.rejectUnauthorized === false ? { rejectUnauthorized: false } : {}),
      },
      // `@kubernetes/client-node` always returns an agent of its own. It is only used if it goes through a proxy; otherwise the agent
      // here does the same and keeps connections open.
      ...(isProxyAgent(applied.agent) ? { agent: applied.agent } : {}),
    };
  }

  /** Does nothing: the KubeConfig keeps the credentials, and is asked for them before every request. */
  refused(): void {}

  async namespace(): Promise<string | undefined> {
    return this.#config.getContextObject?.(this.#config.getCurrentContext?.() ?? '')?.namespace;
  }
}

/** Splits the URL of an API server: a user name and password in it are sent in a header, and must never appear in a message. */
function splitServer(value: unknown): { readonly server: string; readonly authorization: string | undefined } {
  if (typeof value !== 'string' || value === '') {
    throw new ResolveError('the kubeconfig has no current cluster', { permanent: true });
  }
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.search !== '' || url.hash !== '') {
    const message = `the server of the kubeconfig's cluster must be an http: or https: URL, got ${quoted(value, 80)}`;
    throw new ResolveError(message, { permanent: true });
  }
  const { username, password } = url;
  return {
    server: `${url.origin}${withoutTrailing(url.pathname, '/')}`,
    authorization: username === '' && password === '' ? undefined : basic(`${decode(username)}:${decode(password)}`),
  };
}

/** Decodes the percent escapes in a part of a URL. If they are not valid, returns the text as it is. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function basic(userAndPassword: string): string {
  return `Basic ${Buffer.from(userAndPassword).toString('base64')}`;
}

/**
 * Throws for a kubeconfig user without usable credentials. The API server would treat such a user as `system:anonymous`, and its error
 * would say that permissions are missing, which misleads. Keys that `@kubernetes/client-node` does not understand are missing from the
 * object, so they cannot be told from an empty entry, and their names cannot be listed in the message.
 */
function refuseNobody(config: KubeConfigLike, server: string): void {
  if ((config.getCurrentUser?.() ?? undefined) === undefined || !server.startsWith('https:')) return;
  throw new ResolveError(
    `the user of the KubeConfig has no credentials that can be used. @kubernetes/client-node ignores what it does not know, ` +
      `a tokenFile for one: pass apiServer and credentials instead, with a tokenFile or with none`,
    { permanent: true },
  );
}

function headersOf(applied: Record<string, unknown>): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries((applied.headers ?? {}) as Record<string, unknown>)) {
    if (typeof value === 'string') headers[name.toLowerCase()] = value;
  }
  // `@kubernetes/client-node` passes a user name and password in `auth`.
  if (typeof applied.auth === 'string' && headers.authorization === undefined) {
    headers.authorization = basic(applied.auth);
  }
  return headers;
}

function isProxyAgent(agent: unknown): boolean {
  return typeof agent === 'object' && agent !== null && /proxy/i.test(agent.constructor.name);
}
