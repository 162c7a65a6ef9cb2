import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { systemClock } from '../../index.js';
import { afterPendingIo, offAbort, onAbort } from '../kit/index.js';

/** How long a pod that gives no session tickets may take to refuse our certificate, in ms. */
const REFUSAL_MS = 250;
/** … and of the time to open a connection no more than this share: it would never be enough for one that is short. */
const REFUSAL_RATIO = 0.2;

/**
 * With TLS 1.3 a connection is open before the other side has looked at our certificate. Resolves when it has taken it: it then
 * gives a ticket for another session; one that gives none would have hung up by the time this resolves. Rejects if it hangs up.
 * Where a renewed certificate is refused, connections opened with the one before can so stay in use.
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
    // Not from within the ticket's event: what is written in the middle of a read of OpenSSL's is not sent.
    const taken = (): void => over(() => afterPendingIo(resolve));
    const failed = (error: Error): void => over(() => reject(error));
    const closed = (): void => failed(new Error('it hung up when it was shown the certificate'));
    const aborted = (): void => {
      socket.destroy();
      failed(signal.reason);
    };
    // The network's time, whatever clock a test moves.
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
