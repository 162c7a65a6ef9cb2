import type { Pool, PoolOptions } from 'mysql2';
import type { Credentials } from './credentials.js';

const SECRETS = ['password', 'password1', 'password2', 'password3', 'passwordSha1'] as const;

/**
 * Takes the passwords out of what is seen when a pool or one of its connections is logged. They stay where they are:
 * mysql2 reads them for every handshake.
 */
export function hideSecrets(pool: Pool): void {
  const { connectionConfig } = pool.config as unknown as { readonly connectionConfig?: Record<string, unknown> };
  if (connectionConfig === undefined) return;
  for (const name of SECRETS) {
    const value = connectionConfig[name];
    if (value !== undefined) hide(connectionConfig, name, value);
  }
}

/** Gives a pool what its next connection logs in with. */
export function setCredentials(pool: Pool, credentials: Credentials): void {
  const { user, password } = credentials;
  const { connectionConfig } = pool.config as unknown as { readonly connectionConfig: Record<string, unknown> };
  if (user !== undefined) connectionConfig.user = user;
  if (password !== undefined) hide(connectionConfig, 'password', password);
  // A private key may be in it.
  if ('ssl' in credentials) hide(connectionConfig, 'ssl', credentials.ssl ?? false);
}

/** Options for one log-in with these credentials. */
export function withCredentials(options: Record<string, unknown>, { user, password, ssl }: Credentials): PoolOptions {
  return {
    ...options,
    ...(user !== undefined && { user }),
    ...(password !== undefined && { password }),
    ...(ssl !== undefined && { ssl: { ...ssl } }),
  } as PoolOptions;
}

function hide(config: Record<string, unknown>, name: string, value: unknown): void {
  Object.defineProperty(config, name, { value, enumerable: false, writable: true, configurable: true });
}
