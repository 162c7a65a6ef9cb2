import type { Clock } from '../../../runtime/clock.js';

/** TLS settings; all PEM. */
export interface TlsMaterial {
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  readonly passphrase?: string | undefined;
  /** The server name to send and verify, if it is not the URL's host. */
  readonly servername?: string | undefined;
  /** False only if an explicit kubeconfig says `insecure-skip-tls-verify`. */
  readonly rejectUnauthorized?: boolean | undefined;
}

/** Everything a request to the API server needs besides its path. */
export interface ApiTarget {
  /** The URL of the API server, without a trailing slash. */
  readonly server: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: TlsMaterial;
  /** A proxy's agent from a kubeconfig; replaces ours. */
  readonly agent?: unknown;
}

/** Access to an API server: its URL and our credentials. */
export interface ApiAccess {
  /** Accesses with the same key have the same server and the same permissions. Contains no secret in plain text. */
  readonly key: string;
  /** Creates the state that is kept while someone watches. */
  open(clock: Clock): ApiSession;
}

export interface ApiSession {
  /** Called before every request; credentials in it are as fresh as W14 requires. Rejects with a ResolveError. */
  target(): Promise<ApiTarget>;
  /** The server refused the credentials of a request sent at `sentAtMs` (401): older ones are read again. */
  refused(sentAtMs: number): void;
  /** The namespace to use if the user names none. */
  namespace(): Promise<string | undefined>;
}
