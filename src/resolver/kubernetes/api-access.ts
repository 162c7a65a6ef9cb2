import type { Clock } from '../../runtime/clock.js';

/** What TLS needs to know; all PEM. */
export interface TlsMaterial {
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  readonly passphrase?: string | undefined;
  /** The name to ask for and to verify, where it is not the URL's host. */
  readonly servername?: string | undefined;
  /** Only false where an explicit kubeconfig says `insecure-skip-tls-verify`. */
  readonly rejectUnauthorized?: boolean | undefined;
}

/** Everything one request to the API server needs besides its path. */
export interface ApiTarget {
  /** Without a slash at the end. */
  readonly server: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: TlsMaterial;
  /** A proxy's agent from a kubeconfig; replaces ours. */
  readonly agent?: unknown;
}

/** A way to an API server: where it is and who we are there. */
export interface ApiAccess {
  /** Two accesses with one key are the same server and the same rights. Holds no secret in the clear. */
  readonly key: string;
  /** Makes what is kept of it while somebody watches. */
  open(clock: Clock): ApiSession;
}

export interface ApiSession {
  /** Read before every request; credentials in it are as fresh as W14 asks for. Rejects with a ResolveError. */
  target(): Promise<ApiTarget>;
  /** The server refused the credentials of a request sent at `sentAtMs` (401): what is older is read again. */
  refused(sentAtMs: number): void;
  /** The namespace of a client that names none. */
  namespace(): Promise<string | undefined>;
}
