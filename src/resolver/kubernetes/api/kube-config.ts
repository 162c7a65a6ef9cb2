import { asError, ResolveError } from '../../../errors.js';
import { checkKeys, checkString, optionError, quoted, withoutSecrets } from '../../../runtime/check.js';
import type { Clock } from '../../../runtime/clock.js';
import { ownProperties } from '../../../runtime/own-properties.js';
import { withoutTrailing } from '../../../runtime/without-trailing.js';
import type { ApiAccess, ApiSession, ApiTarget } from './api-access.js';
import { CredentialFile } from './credential-file.js';
import { defaultPaths, readUserEntry, type UserEntry } from './kube-config-user.js';

/** Which kubeconfig file to use and which context in it. Needs the package `@kubernetes/client-node`. */
export interface KubeConfigOptions {
  /** The path of the kubeconfig file. @defaultValue the file that kubectl uses: $KUBECONFIG, otherwise ~/.kube/config */
  readonly path?: string | undefined;
  /**
   * Which of the file's contexts to use. A context names an API server, a user and a namespace. @defaultValue the file's current context
   */
  readonly context?: string | undefined;
}

/** The methods of a `KubeConfig` of `@kubernetes/client-node` that evenkeel uses. Pass a `KubeConfig` if you have already loaded one. */
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

interface LoadableKubeConfig extends KubeConfigLike {
  loadFromFile(path: string): void;
  loadFromDefault(): void;
  setCurrentContext(context: string): void;
}

const ids = new WeakMap<object, number>();
let nextId = 1;

/**
 * Creates the access to an API server from a kubeconfig, with whatever credentials it has: client certificates, tokens, OIDC, or programs
 * that return credentials. Throws EVENKEEL_OPTION.
 */
export function kubeConfigAccess(kubeConfig: KubeConfigOptions | KubeConfigLike): ApiAccess {
  if (isLoaded(kubeConfig)) {
    const id = ids.get(kubeConfig) ?? nextId++;
    ids.set(kubeConfig, id);
    return {
      key: `kubeconfig object ${id}`,
      open: (clock) => new KubeConfigSession(async () => ({ config: kubeConfig, user: undefined }), clock),
    };
  }
  checkKeys('kubeConfig', kubeConfig, ['path', 'context']);
  const { path, context } = ownProperties(kubeConfig);
  if (path !== undefined) checkString('kubeConfig.path', path);
  if (context !== undefined) checkString('kubeConfig.context', context);
  return {
    key: `kubeconfig ${JSON.stringify([path ?? '', context ?? ''])}`,
    open: (clock) => new KubeConfigSession(() => load(path, context), clock),
  };
}

interface LoadedConfig {
  readonly config: KubeConfigLike;
  /** The user's entry in the kubeconfig file; undefined if the user passed a `KubeConfig` that was already loaded. */
  readonly user: UserEntry | undefined;
}

class KubeConfigSession implements ApiSession {
  readonly #load: () => Promise<LoadedConfig>;
  readonly #clock: Clock;
  #loaded: LoadedConfig | undefined;
  /** The token file of the current user. */
  #tokenFile: CredentialFile | undefined;

  constructor(load: () => Promise<LoadedConfig>, clock: Clock) {
    this.#load = load;
    this.#clock = clock;
  }

  async target(): Promise<ApiTarget> {
    const loaded = await this.#config();
    try {
      return await this.#targetOf(loaded);
    } catch (error) {
      // After an error the kubeconfig is loaded again for the next request, so that a corrected file takes effect.
      this.#loaded = undefined;
      throw error;
    }
  }

  async #targetOf({ config, user }: LoadedConfig): Promise<ApiTarget> {
    const { server, authorization } = splitServer(config.getCurrentCluster()?.server);
    // This may run a program that the kubeconfig names. It is called before every request, so that an expired token is renewed.
    const applied: Record<string, unknown> = {};
    try {
      await config.applyToHTTPSOptions(applied);
    } catch (cause) {
      throw new ResolveError(`the kubeconfig gives no credentials: ${withoutSecrets(asError(cause).message)}`, {
        cause,
      });
    }
    const headers = headersOf(applied);
    // As in kubectl, the user's token file takes precedence over a token in the kubeconfig, which may be outdated.
    const token = user?.tokenFile === undefined ? undefined : await this.#readToken(user.tokenFile, headers);
    if (token !== undefined) headers.authorization = `Bearer ${token}`;
    if (authorization !== undefined) headers.authorization ??= authorization;
    const { ca, cert, key, passphrase, servername } = applied;
    if (headers.authorization === undefined && cert === undefined && key === undefined)
      refuseNobody(config, user, server);
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

  refused(sentAtMs: number): void {
    // The kubeconfig is read again, because the program that renews the credentials may have written new ones to it.
    this.#loaded = undefined;
    this.#tokenFile?.expire(sentAtMs);
  }

  async namespace(): Promise<string | undefined> {
    const { config } = await this.#config();
    return config.getContextObject?.(config.getCurrentContext?.() ?? '')?.namespace;
  }

  async #config(): Promise<LoadedConfig> {
    this.#loaded ??= await this.#load();
    return this.#loaded;
  }

  /** Returns the token in a user's token file. Undefined if the file is unreadable but the kubeconfig has other credentials. */
  async #readToken(path: string, headers: Readonly<Record<string, string>>): Promise<string | undefined> {
    if (this.#tokenFile?.path !== path) this.#tokenFile = new CredentialFile(path, this.#clock);
    try {
      return await this.#tokenFile.read();
    } catch (cause) {
      if (headers.authorization !== undefined) return undefined;
      throw new ResolveError(`the tokenFile of the kubeconfig's user cannot be read: ${asError(cause).message}`, {
        cause,
      });
    }
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
 * would say that permissions are missing, which misleads. A user with an empty entry is meant to be anonymous, so this does not throw.
 */
function refuseNobody(config: KubeConfigLike, user: UserEntry | undefined, server: string): void {
  const known = 'token, tokenFile, a client certificate, username and password, exec and auth-provider';
  if (user !== undefined) {
    if (user.keys.length === 0) return;
    throw new ResolveError(
      `the kubeconfig's user ${quoted(user.name, 80)} has no credentials that can be used: it has ` +
        `${user.keys.map((key) => quoted(key, 40)).join(', ')}, and what is understood is ${known}`,
      { permanent: true },
    );
  }
  // Keys that @kubernetes/client-node does not understand are missing from the object, so their names cannot be listed in the message.
  if ((config.getCurrentUser?.() ?? undefined) === undefined || !server.startsWith('https:')) return;
  throw new ResolveError(
    `the user of the KubeConfig has no credentials that can be used. @kubernetes/client-node ignores what it does not know, ` +
      `a tokenFile for one: kubeConfig: { path } reads that, too. To be nobody there use apiServer instead`,
    { permanent: true },
  );
}

interface ClientNode {
  readonly KubeConfig: new () => LoadableKubeConfig;
  readonly loadYaml: (text: string) => unknown;
}

async function load(path: string | undefined, context: string | undefined): Promise<LoadedConfig> {
  let clientNode: ClientNode;
  await import('./check-version.js');
  try {
    // This is the only place that loads the optional package, and only if a kubeconfig is used.
    clientNode = (await import('@kubernetes/client-node')) as unknown as ClientNode;
  } catch (cause) {
    throw new ResolveError(
      'a kubeconfig needs the package @kubernetes/client-node: npm install @kubernetes/client-node',
      {
        cause,
        permanent: true,
      },
    );
  }
  try {
    const config = new clientNode.KubeConfig();
    if (path === undefined) config.loadFromDefault();
    else config.loadFromFile(path);
    if (context !== undefined) config.setCurrentContext(context);
    const name = (config.getCurrentUser?.() as { readonly name?: unknown } | null | undefined)?.name;
    const paths = path === undefined ? defaultPaths() : [path];
    const user = typeof name === 'string' ? await readUserEntry(paths, name, clientNode.loadYaml) : undefined;
    return { config, user };
  } catch (error) {
    const cause = withoutExcerpt(asError(error));
    throw new ResolveError(`the kubeconfig ${path ?? 'of kubectl'} cannot be read: ${cause.message}`, { cause });
  }
}

/** Copies a YAML error without its excerpt. The excerpt quotes the lines around the mistake, which may contain tokens and passwords. */
function withoutExcerpt(error: Error): Error {
  if (error.name !== 'YAMLException') return error;
  const [first = ''] = error.message.split('\n');
  const start = first.search(/["'<]/);
  const end = Math.max(...['"', "'", '>'].map((quote) => first.lastIndexOf(quote)));
  return new Error(start !== -1 && start < end ? `${first.slice(0, start)}…${first.slice(end + 1)}` : first);
}

function isLoaded(value: unknown): value is KubeConfigLike {
  if (typeof value !== 'object' || value === null)
    throw optionError('kubeConfig', '{ path, context } or a KubeConfig', value);
  return typeof (value as Partial<KubeConfigLike>).applyToHTTPSOptions === 'function';
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
