import { promises as fs } from 'node:fs';
import { isIPv6 } from 'node:net';
import { join } from 'node:path';
import { ResolveError } from '../../../errors.js';
import { checkKeys, checkString } from '../../../runtime/check.js';
import type { Clock } from '../../../runtime/clock.js';
import { ownProperties } from '../../../runtime/own-properties.js';
import type { ApiAccess, ApiSession, ApiTarget } from './api-access.js';
import { CredentialFile } from './credential-file.js';

/** Where a process in a pod finds the API server and its service account. Other places than the usual ones are for tests. */
export interface InClusterOptions {
  /** Directory with `token`, `ca.crt` and `namespace`. @defaultValue '/var/run/secrets/kubernetes.io/serviceaccount' */
  readonly path?: string | undefined;
  /** The environment, which contains KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT. @defaultValue process.env */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

const defaultPath = '/var/run/secrets/kubernetes.io/serviceaccount';

/**
 * Whether this process runs in a Kubernetes pod with a service account, that is, whether the environment has the API server's address and
 * a token is mounted. It does not check whether the service account has any permissions.
 */
export async function inClusterAvailable(options: InClusterOptions = {}): Promise<boolean> {
  const { path, server } = resolve(options);
  if (server === undefined) return false;
  const token = await fs.readFile(join(path, 'token'), 'utf8').catch(() => '');
  return token.trim() !== '';
}

/** The namespace of the pod that this process runs in; undefined outside of a pod. */
export async function inClusterNamespace(options: InClusterOptions = {}): Promise<string | undefined> {
  const text = await fs.readFile(join(resolve(options).path, 'namespace'), 'utf8').catch(() => '');
  return text.trim() || undefined;
}

/**
 * Creates the access to the API server with the pod's service account. Its files are read when they are needed, and again when they
 * change.
 */
export function inClusterAccess(options: InClusterOptions = {}): ApiAccess {
  const { path, server } = resolve(options);
  return {
    key: `in-cluster ${server ?? 'nowhere'} ${path}`,
    open: (clock) => new InClusterSession(path, server, clock),
  };
}

class InClusterSession implements ApiSession {
  readonly #path: string;
  readonly #server: string | undefined;
  readonly #clock: Clock;
  readonly #token: CredentialFile;
  readonly #ca: CredentialFile;

  constructor(path: string, server: string | undefined, clock: Clock) {
    this.#path = path;
    this.#server = server;
    this.#clock = clock;
    this.#token = new CredentialFile(join(path, 'token'), clock);
    this.#ca = new CredentialFile(join(path, 'ca.crt'), clock);
  }

  async target(): Promise<ApiTarget> {
    if (this.#server === undefined) {
      throw new ResolveError('not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set', {
        permanent: true,
      });
    }
    try {
      const [token, ca] = await Promise.all([this.#token.read(), this.#ca.read()]);
      return { server: this.#server, headers: { authorization: `Bearer ${token}` }, tls: { ca } };
    } catch (cause) {
      throw new ResolveError(`the service account in ${this.#path} cannot be read; is its token mounted?`, { cause });
    }
  }

  refused(sentAtMs: number): void {
    this.#token.expire(sentAtMs);
    this.#ca.expire(sentAtMs);
  }

  async namespace(): Promise<string | undefined> {
    return await new CredentialFile(join(this.#path, 'namespace'), this.#clock).read().catch(() => undefined);
  }
}

function resolve(options: InClusterOptions): { readonly path: string; readonly server: string | undefined } {
  checkKeys('inCluster', options, ['path', 'env']);
  const own = ownProperties(options);
  const path = checkString('inCluster.path', own.path ?? defaultPath);
  const env = ownProperties(own.env ?? process.env);
  const host = env.KUBERNETES_SERVICE_HOST;
  const port = env.KUBERNETES_SERVICE_PORT;
  if (!host || !port) return { path, server: undefined };
  return { path, server: `https://${isIPv6(host) ? `[${host}]` : host}:${port}` };
}
