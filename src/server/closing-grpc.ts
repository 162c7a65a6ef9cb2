import { checkFunction } from '../runtime/check.js';

/** A server that is shutting down. */
export interface ClosingServer {
  /** This process is going to leave; nobody is told yet. */
  leave?(): void;
  /** Tells callers not to come back; running and new requests are still served. */
  close(): void;
  /** Closes idle connections and accepts no new ones. Resolves when nothing runs any more. */
  end(): Promise<void>;
  /** Closes connections that were to stay longer. @defaultValue it has none */
  hurry?(): void;
  /** Ends whatever still runs. */
  cut(): void;
}

/** The part of a grpc-js server used here. */
export interface GrpcServer {
  tryShutdown(callback: (error?: Error) => void): void;
  forceShutdown(): void;
}

/** `tryShutdown` sends GOAWAY and lets running calls finish. */
export function grpcClosing(server: GrpcServer): ClosingServer {
  checkFunction('grpc.tryShutdown', server?.tryShutdown);
  checkFunction('grpc.forceShutdown', server.forceShutdown);
  let closed: Promise<void> | undefined;
  return {
    close() {
      // An error means that it was not running, so nothing is left to do.
      closed ??= new Promise((resolve) => server.tryShutdown(() => resolve()));
    },
    end: async () => closed,
    cut: () => server.forceShutdown(),
  };
}
