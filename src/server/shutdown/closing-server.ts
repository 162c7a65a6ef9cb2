import { checkFunction } from '../../runtime/check.js';

/** A server that has to close because its pod is shutting down, with the same methods for every protocol. */
export interface ClosingServer {
  /** The process is about to shut down, but callers are not told yet. */
  announce?(): void;
  /** The server tells its callers not to come back. It still serves running and new requests. */
  close(): void;
  /** The server closes idle connections and accepts no new ones. Resolves when nothing runs on it any more. */
  end(): Promise<void>;
  /** Closes connections that were meant to stay longer. @defaultValue the server has no such connections */
  hurry?(): void;
  /** Ends whatever still runs on the server. */
  cut(): void;
}

/** The part of a grpc-js server that evenkeel uses. */
export interface GrpcServer {
  tryShutdown(callback: (error?: Error) => void): void;
  forceShutdown(): void;
}

/** Shuts down a grpc-js server with `tryShutdown`, which sends GOAWAY and lets running calls finish. */
export function grpcClosing(server: GrpcServer): ClosingServer {
  checkFunction('grpc.tryShutdown', server?.tryShutdown);
  checkFunction('grpc.forceShutdown', server.forceShutdown);
  let closed: Promise<void> | undefined;
  return {
    close() {
      // An error of `tryShutdown` means that the server was not running, so there is nothing left to do.
      closed ??= new Promise((resolve) => server.tryShutdown(() => resolve()));
    },
    end: async () => closed,
    cut: () => server.forceShutdown(),
  };
}
