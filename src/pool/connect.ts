import { type Endpoint, endpointAddress } from '../endpoint/endpoint.js';
import { asError, EvenkeelError } from '../errors.js';
import type { Clock } from '../runtime/clock.js';
import type { Connection, Transport } from './transport.js';

/** An aborted signal, for cutting connections. */
export const cut: AbortSignal = AbortSignal.abort();

/**
 * Opens a connection within `timeoutMs`, or until `signal` aborts. Rejects with EVENKEEL_CONNECT that names the
 * endpoint. Holds also for a transport that ignores its signal: what it delivers too late is closed.
 */
export async function connectWithin<C>(
  transport: Transport<C>,
  endpoint: Endpoint,
  timeoutMs: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<Connection<C>> {
  const address = endpointAddress(endpoint);
  const limit = new AbortController();
  return new Promise((resolve, reject) => {
    let settled = false;
    const give = (error: EvenkeelError): void => {
      if (settled) return;
      settled = true;
      timer.cancel();
      signal.removeEventListener('abort', onAbort);
      limit.abort(error);
      reject(error);
    };
    const onAbort = (): void => give(new EvenkeelError('EVENKEEL_CLOSED', `connecting to ${address} was called off`));
    const timer = clock.timer(
      () =>
        give(
          new EvenkeelError('EVENKEEL_CONNECT', `${address} did not accept a connection within ${timeoutMs} ms`, {
            endpoint: address,
          }),
        ),
      timeoutMs,
    );
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) {
      onAbort();
      return;
    }
    let opening: Promise<Connection<C>>;
    try {
      opening = transport.connect(endpoint, limit.signal);
    } catch (error) {
      opening = Promise.reject(error);
    }
    opening.then(
      (connection) => {
        if (settled) {
          void connection.close(cut);
          return;
        }
        settled = true;
        timer.cancel();
        signal.removeEventListener('abort', onAbort);
        resolve(connection);
      },
      (error: unknown) =>
        give(
          new EvenkeelError('EVENKEEL_CONNECT', `no connection to ${address}: ${asError(error).message}`, {
            cause: error,
            endpoint: address,
          }),
        ),
    );
  });
}
