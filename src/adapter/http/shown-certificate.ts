import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { systemClock } from '../../index.js';
import { afterPendingIo, offAbort, onAbort } from '../kit/index.js';

/** How long a pod without session tickets may take to reject our certificate, in ms. */
const REFUSAL_MS = 250;
/** … but at most this share of the connect timeout, which may be short. */
const REFUSAL_RATIO = 0.2;

/**
 * With TLS 1.3 a connection is open before the other side has checked our certificate. Resolves when it has accepted it: it then sends
 * a session ticket, or, if it sends none, would have closed the connection by the time this resolves. Rejects if it closes the
 * connection. So if a renewed certificate is rejected, connections opened with the previous one can stay in use.
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
    // Not within the ticket's event: data written during a read of OpenSSL is not sent.
    const taken = (): void => over(() => afterPendingIo(resolve));
    const failed = (error: Error): void => over(() => reject(error));
    const closed = (): void => failed(new Error('it hung up when it was shown the certificate'));
    const aborted = (): void => {
      socket.destroy();
      failed(signal.reason);
    };
    // Network time, whatever clock a test uses.
    const timer = systemClock.timer(taken, Math.min(REFUSAL_MS, REFUSAL_RATIO * connectTimeoutMs));
    secure.on('session', taken).on('error', failed).on('close', closed);
    onAbort(signal, aborted);
    if (signal.aborted) aborted();
    else if (socket.destroyed) closed();
  });
}

function hasCertificate(socket: TLSSocket): boolean {
  const own = socket.getCertificate();
  return own !== null && Object.keys(own).length > 0;
}
