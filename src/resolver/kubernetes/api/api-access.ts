import type { Clock } from '../../../runtime/clock.js';

/** TLS settings of the connection to an API server; all in PEM. */
export interface TlsMaterial {
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  readonly passphrase?: string | undefined;
  /** The server name to send and verify in TLS, if it is not the URL's host. */
  readonly servername?: string | undefined;
  /** Whether the API server's certificate is verified; false only if an explicit kubeconfig says `insecure-skip-tls-verify`. */
  readonly rejectUnauthorized?: boolean | undefined;
}

/** Everything a request to the API server needs besides its path. */
export interface ApiTarget {
  /** The URL of the API server, without a trailing slash. */
  readonly server: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: TlsMaterial;
  /** The agent of a proxy that a kubeconfig names; it is used in place of ours. */
  readonly agent?: unknown;
}

/** Access to an API server: its URL and our credentials. */
export interface ApiAccess {
  /** Accesses with the same key have the same server and the same permissions. Contains no secret in plain text. */
  readonly key: string;
  /** Creates the state that is kept while somebody watches with this access. */
  open(clock: Clock): ApiSession;
}

export interface ApiSession {
  /**
   * Called before every request to the API server. Credentials are read again so often that they are at most a minute old (W14). Rejects
   * with a ResolveError.
   */
  target(): Promise<ApiTarget>;
  /** The API server refused (401) the credentials of a request sent at `sentAtMs`: credentials that are older are read again. */
  refused(sentAtMs: number): void;
  /** The namespace to use if the user names none. */
  namespace(): Promise<string | undefined>;
}
