import { asError, ResolveError } from '../../errors.js';
import { checkKeys, checkString, optionError } from '../../runtime/check.js';
import type { ApiAccess, ApiSession, ApiTarget } from './api-access.js';

/** A kubeconfig file to follow. Needs the optional peer `@kubernetes/client-node`. */
export interface KubeConfigOptions {
  /** @defaultValue what kubectl uses: $KUBECONFIG, else ~/.kube/config */
  readonly path?: string;
  /** @defaultValue the file's current context */
  readonly context?: string;
}

/** What we use of a `KubeConfig` of `@kubernetes/client-node`; pass one that is loaded already if you have it. */
export interface KubeConfigLike {
  getCurrentCluster(): { readonly server: string } | null;
  applyToHTTPSOptions(options: Record<string, unknown>): Promise<void>;
  getContextObject?(name: string): { readonly namespace?: string } | null;
  getCurrentContext?(): string;
}

interface LoadableKubeConfig extends KubeConfigLike {
  loadFromFile(path: string): void;
  loadFromDefault(): void;
  setCurrentContext(context: string): void;
}

const ids = new WeakMap<object, number>();
let nextId = 1;

/** Access as a kubeconfig says: client certificates, tokens, OIDC and exec plug-ins. Throws EVENKEEL_OPTION. */
export function kubeConfigAccess(kubeConfig: KubeConfigOptions | KubeConfigLike): ApiAccess {
  if (isLoaded(kubeConfig)) {
    const id = ids.get(kubeConfig) ?? nextId++;
    ids.set(kubeConfig, id);
    return { key: `kubeconfig object ${id}`, open: () => new KubeConfigSession(async () => kubeConfig) };
  }
  checkKeys('kubeConfig', kubeConfig, ['path', 'context']);
  const { path, context } = kubeConfig;
  if (path !== undefined) checkString('kubeConfig.path', path);
  if (context !== undefined) checkString('kubeConfig.context', context);
  return {
    key: `kubeconfig ${JSON.stringify([path ?? '', context ?? ''])}`,
    open: () => new KubeConfigSession(() => load(path, context)),
  };
}

class KubeConfigSession implements ApiSession {
  readonly #load: () => Promise<KubeConfigLike>;
  #loaded: KubeConfigLike | undefined;

  constructor(load: () => Promise<KubeConfigLike>) {
    this.#load = load;
  }

  async target(): Promise<ApiTarget> {
    const config = await this.#config();
    const server = config.getCurrentCluster()?.server;
    if (!server) throw new ResolveError('the kubeconfig has no current cluster', { permanent: true });
    // Asked before every request: tokens behind it are renewed here.
    const applied: Record<string, unknown> = {};
    try {
      await config.applyToHTTPSOptions(applied);
    } catch (cause) {
      throw new ResolveError(`the kubeconfig gives no credentials: ${asError(cause).message}`, { cause });
    }
    const { ca, cert, key, passphrase, servername } = applied;
    const text = (value: unknown): string | undefined =>
      Buffer.isBuffer(value) ? value.toString('utf8') : typeof value === 'string' ? value : undefined;
    return {
      server: server.replace(/\/+$/, ''),
      headers: headersOf(applied),
      tls: {
        ca: text(ca),
        cert: text(cert),
        key: text(key),
        passphrase: text(passphrase),
        servername: text(servername),
        ...(applied.rejectUnauthorized === false ? { rejectUnauthorized: false } : {}),
      },
      // The library always sets an agent of its own, made anew each time; only a proxy's does more than ours.
      ...(isProxyAgent(applied.agent) ? { agent: applied.agent } : {}),
    };
  }

  refused(): void {
    // Read the file again: whoever renewed the credentials may have rewritten it.
    this.#loaded = undefined;
  }

  async namespace(): Promise<string | undefined> {
    const config = await this.#config();
    return config.getContextObject?.(config.getCurrentContext?.() ?? '')?.namespace;
  }

  async #config(): Promise<KubeConfigLike> {
    this.#loaded ??= await this.#load();
    return this.#loaded;
  }
}

async function load(path: string | undefined, context: string | undefined): Promise<KubeConfigLike> {
  let KubeConfig: new () => LoadableKubeConfig;
  try {
    // The only place that loads the optional peer.
    ({ KubeConfig } = (await import('@kubernetes/client-node')) as unknown as {
      KubeConfig: new () => LoadableKubeConfig;
    });
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
    const config = new KubeConfig();
    if (path === undefined) config.loadFromDefault();
    else config.loadFromFile(path);
    if (context !== undefined) config.setCurrentContext(context);
    return config;
  } catch (cause) {
    throw new ResolveError(`the kubeconfig ${path ?? 'of kubectl'} cannot be read: ${asError(cause).message}`, {
      cause,
    });
  }
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
  // A user name and password arrive as `auth`.
  if (typeof applied.auth === 'string' && headers.authorization === undefined) {
    headers.authorization = `Basic ${Buffer.from(applied.auth).toString('base64')}`;
  }
  return headers;
}

function isProxyAgent(agent: unknown): boolean {
  return typeof agent === 'object' && agent !== null && /proxy/i.test(agent.constructor.name);
}
