import { checkFunction } from '../runtime/check.js';

/** A server of this pod that is shutting down. */
export interface ClosingServer {
  /** The process is going to shut down, but no caller is told yet. */
  leave?(): void;
  /** The server tells callers not to come back; it still serves running and new requests. */
  close(): void;
  /** The server closes idle connections and accepts no new ones. Resolves when nothing runs any more. */
  end(): Promise<void>;
  /** The server closes connections that were to stay longer. @defaultValue it has none */
  hurry?(): void;
  /** The server ends whatever still runs. */
  cut(): void;
}

/** The part of a grpc-js server used here. */
export interface GrpcServer {
  tryShutdown(callback: (error?: Error) => void): void;
  forceShutdown(): void;
}

/** Shuts a grpc-js server down: `tryShutdown` sends GOAWAY and lets running calls finish. */
export function grpcClosing(server: GrpcServer): ClosingServer {
  checkFunction('grpc.tryShutdown', server?.tryShutdown);
  checkFunction('grpc.forceShutdown', server.forceShutdown);
  let closed: Promise<void> | undefined;
  return {
    close() {
      // An error of `tryShutdown` means that the server was not running, so nothing is left to do.
      closed ??= new Promise((resolve) => server.tryShutdown(() => resolve()));
    },
    end: async () => closed,
    cut: () => server.forceShutdown(),
  };
}
