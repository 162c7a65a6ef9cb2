const lasting = new WeakSet<object>();

/**
 * Marks an error with which a transport refuses to connect as one that only a change of the set-up cures: a user the server does
 * not know, say. Calls do not wait while every endpoint refuses in this way. Connecting goes on, so that they succeed again
 * soon after the change.
 */
export function markLasting<E extends object>(error: E): E {
  lasting.add(error);
  return error;
}

/** Errors of TLS that say what is set up wrong, on one side or the other. */
const TLS_MISTAKES: ReadonlySet<unknown> = new Set([
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'CERT_SIGNATURE_FAILURE',
  'CERT_UNTRUSTED',
  'CERT_HAS_EXPIRED',
  'CERT_NOT_YET_VALID',
  'ERR_SSL_WRONG_VERSION_NUMBER',
  'ERR_SSL_PACKET_LENGTH_TOO_LONG',
]);

/** Whether an error of `connect` will not pass by itself. */
export function isLasting(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  return lasting.has(error) || TLS_MISTAKES.has((error as { readonly code?: unknown }).code);
}
