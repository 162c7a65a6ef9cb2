import type { Clock } from '../../../runtime/clock.js';

/** The certificates and keys for a TLS connection to a Kubernetes API server. All texts are in PEM format. */
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

/** How to reach a Kubernetes API server: its URL, and the credentials that evenkeel sends. */
export interface ApiAccess {
  /**
   * A text that identifies the API server and the permissions: two accesses with the same key can share one watch. Contains no secret in
   * plain text.
   */
  readonly key: string;
  /**
   * Creates the credentials' state, such as the contents of token files. One session exists as long as somebody watches the API server.
   */
  open(clock: Clock): ApiSession;
}

export interface ApiSession {
  /**
   * Returns where and with which credentials to send the next request; called before every request to the API server. Credentials in
   * files are read again so often that they are at most a minute old. Rejects with a ResolveError.
   */
  target(): Promise<ApiTarget>;
  /**
   * Says that a request sent at `sentAtMs` failed, or that the API server refused its credentials (status 401). Credentials read before
   * that time are read again for the next request.
   */
  refused(sentAtMs: number): void;
  /** The namespace to use if the user names none. */
  namespace(): Promise<string | undefined>;
}
