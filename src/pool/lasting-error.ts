const lasting = new WeakSet<object>();

/**
 * Marks an error of `connect` as one that only a change of the configuration fixes, such as an unknown user. Calls do not wait while
 * every endpoint fails in this way. Connection attempts continue, so that calls succeed again soon after the change.
 */
export function markLasting<E extends object>(error: E): E {
  lasting.add(error);
  return error;
}

/** TLS errors that come from the configuration of either side. */
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

/** Whether an error of `connect` will not go away by itself. */
export function isLasting(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  return lasting.has(error) || TLS_MISTAKES.has((error as { readonly code?: unknown }).code);
}
