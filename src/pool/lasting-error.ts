import { isPerEndpointError } from '../credentials/per-endpoint.js';
import { asError } from '../errors.js';

const lasting = new WeakSet<object>();

/**
 * Marks an error of `connect` as one that goes away only when somebody changes the configuration, such as an unknown user. Calls do not
 * wait while every endpoint fails with such an error. Attempts to connect go on, so that calls succeed again soon after the change.
 */
export function markLasting<E extends object>(error: E): E {
  lasting.add(error);
  return error;
}

/** Codes of TLS errors that come from the configuration of the client or the server. */
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
  // TLS alerts with which the server rejects how the client connects (RFC 8446, section 6.2): the protocol above TLS, the version, the
  // ciphers, or the name.
  'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL',
  'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION',
  'ERR_SSL_UNSUPPORTED_PROTOCOL',
  'ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE',
  'ERR_SSL_TLSV1_ALERT_INSUFFICIENT_SECURITY',
  'ERR_SSL_TLSV1_UNRECOGNIZED_NAME',
  // TLS alerts with which the server rejects the client's certificate.
  'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED',
  'ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE',
  'ERR_SSL_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE',
  'ERR_SSL_SSLV3_ALERT_CERTIFICATE_REVOKED',
  'ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED',
  'ERR_SSL_SSLV3_ALERT_CERTIFICATE_UNKNOWN',
  'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA',
  'ERR_SSL_TLSV1_ALERT_ACCESS_DENIED',
]);

/** Whether an error of `connect` goes away only when somebody changes the configuration. */
export function isLasting(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  return lasting.has(error) || TLS_MISTAKES.has((error as { readonly code?: unknown }).code);
}

/**
 * Whether a server that could not be connected to would fail in the same way at its other address: because of a certificate, a user or a
 * function of the application.
 */
export function isSameAtOtherAddress(error: unknown): boolean {
  return isPerEndpointError(asError(error)) || isLasting(error);
}
