import { ServerConnection, type ServerConnectionParts } from './server-connection.js';

/** Opens the first connection to a server. Rejects with what went wrong; after an abort nothing is open. */
export function openServerConnection(parts: ServerConnectionParts, signal: AbortSignal): Promise<ServerConnection> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const server = new ServerConnection(parts);
    const onAbort = (): void => {
      reject(signal.reason);
      void server.close(AbortSignal.abort());
    };
    signal.addEventListener('abort', onAbort, { once: true });
    server.warm((error) => {
      signal.removeEventListener('abort', onAbort);
      if (error === undefined) resolve(server);
      else {
        // The connecting code itself reports that there is no connection, and to which server.
        reject(error.cause ?? error);
        void server.close();
      }
    });
  });
}
