import type { Socket } from 'node:net';
import type { ConnectionOptions, TLSSocket } from 'node:tls';
import { type Clock, type Endpoint, type Rng, systemClock } from '../../index.js';
import { afterPendingIo, isSameIdentity, offAbort, onAbort, ValueWatch } from '../kit/index.js';
import type { TlsOption } from './dial.js';

/** Notices when a `tls` function returns other certificates; undefined if `tls` is no function, or one that is not to be called again. */
export function watchCertificates(
  tls: TlsOption,
  endpoint: Endpoint,
  { credentialsRefreshMs: refreshMs, clock, rng }: { credentialsRefreshMs: number; clock: Clock; rng: Rng },
): ValueWatch<ConnectionOptions> | undefined {
  if (typeof tls !== 'function' || !Number.isFinite(refreshMs)) return undefined;
  return new ValueWatch({ clock, rng, refreshMs, read: () => tls(endpoint), isSame: isSameIdentity });
}

/** How long a pod that sends no session tickets may take to reject our certificate, in ms. */
const REFUSAL_MS = 250;
/** The share of the connect timeout that the wait for a rejected certificate may take at most, because that timeout may be short. */
const REFUSAL_RATIO = 0.2;

/**
 * Waits until the pod has accepted our certificate: with TLS 1.3 a connection is open before the pod has checked it. Resolves when the pod
 * sends a session ticket, or after the time in which it would have closed the connection. Rejects if the pod closes the connection. So if a
 * renewed certificate is rejected, connections opened with the previous one can stay in use.
 */
export function shownCertificate(socket: Socket, connectTimeoutMs: number, signal: AbortSignal): Promise<void> {
  const secure = socket as TLSSocket;
  if (secure.getProtocol?.() !== 'TLSv1.3' || !hasCertificate(secure)) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const over = (settle: () => void): void => {
      timer.cancel();
      offAbort(signal, aborted);
      secure.off('session', taken).off('error', failed).off('close', closed);
      settle();
    };
    // The promise is not resolved within the session event, because data written while OpenSSL reads is not sent.
    const taken = (): void => over(() => afterPendingIo(resolve));
    const failed = (error: Error): void => over(() => reject(error));
    const closed = (): void => failed(new Error('it hung up when it was shown the certificate'));
    const aborted = (): void => {
      socket.destroy();
      failed(signal.reason);
    };
    // The real clock is used even in tests, because this waits for the network.
    const timer = systemClock.timer(taken, Math.min(REFUSAL_MS, REFUSAL_RATIO * connectTimeoutMs));
    secure.on('session', taken).on('error', failed).on('close', closed);
    onAbort(signal, aborted);
    if (signal.aborted) aborted();
    else if (socket.destroyed) closed();
  });
}

function hasCertificate(socket: TLSSocket): boolean {
  const certificate = socket.getCertificate();
  return certificate !== null && Object.keys(certificate).length > 0;
}
