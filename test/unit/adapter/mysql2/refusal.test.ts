import { describe, expect, it } from 'vitest';
import { isRefusedLogIn } from '../../../../src/adapter/mysql2/outcome.js';

const handshake = (message: string, code = 'HANDSHAKE_SSL_ERROR'): Error => Object.assign(new Error(message), { code });

describe('a log-in error that only a change of configuration can mend', () => {
  it.each([
    "Hostname/IP does not match certificate's altnames: Host: mysql.shop. is not in the cert's altnames: DNS:other",
    'self-signed certificate',
    'self signed certificate in certificate chain',
    'unable to verify the first certificate; if the root CA is installed locally, try running Node.js with --use-system-ca',
    'unable to get local issuer certificate',
    'unable to get issuer certificate',
    'certificate has expired',
    'certificate is not yet valid',
  ])('is a TLS error: %s', (message) => {
    expect(isRefusedLogIn(handshake(message))).toBe(true);
  });

  it('is a server without TLS', () => {
    expect(isRefusedLogIn(handshake('Server does not support secure connection', 'HANDSHAKE_NO_SSL_SUPPORT'))).toBe(
      true,
    );
  });

  it.each(['Client network socket disconnected before secure TLS connection was established', 'read ECONNRESET'])(
    'is not a lost connection: %s',
    (message) => {
      expect(isRefusedLogIn(handshake(message))).toBe(false);
      expect(isRefusedLogIn(handshake(message, 'ECONNRESET'))).toBe(false);
    },
  );
});
