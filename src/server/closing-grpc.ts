import { checkFunction } from '../runtime/check.js';

/** A server while it leaves. */
export interface ClosingServer {
  /** Tells callers not to come back; what runs goes on, and so does what still comes. */
  close(): void;
  /** Closes what is idle, and takes nothing new. Resolves when nothing runs any more. */
  end(): Promise<void>;
  /** Ends what still runs. */
  cut(): void;
}

/** A server of grpc-js, as far as it matters here. */
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
      // An error says that it was not running: then nothing is left to do.
      closed ??= new Promise((resolve) => server.tryShutdown(() => resolve()));
    },
    end: async () => closed,
    cut: () => server.forceShutdown(),
  };
}
