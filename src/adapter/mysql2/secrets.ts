import type { Pool } from 'mysql2';

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
    if (value === undefined) continue;
    Object.defineProperty(connectionConfig, name, { value, enumerable: false, writable: true, configurable: true });
  }
}
