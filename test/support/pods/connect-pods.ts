import { PodProgram, type ServerOptions, type ServerProcess } from './pod-program.js';

export interface ConnectPodStats {
  /** Sessions open now, and opened since the start. */
  readonly open: number;
  readonly opened: number;
  /** Streams running now, and the most that ran at once. */
  readonly running: number;
  readonly most: number;
  readonly requests: number;
  /** Method and URL of the last ten requests. */
  readonly paths: readonly string[];
}

export interface ConnectPodOptions extends ServerOptions {
  /** `MAX_CONCURRENT_STREAMS`. @defaultValue Node's, which is no limit */
  readonly maxStreams?: number;
  /** Refuses every request with REFUSED_STREAM. */
  readonly refuse?: boolean;
  readonly tls?: { readonly cert: string; readonly key: string };
}

type Command = 'release' | 'goaway' | 'reset' | 'shutdown' | 'calm';

/** A server of Connect over HTTP/2. Its answers: `connect-pod.mjs`. */
export type ConnectPod = ServerProcess<ConnectPodStats, Command>;
export const ConnectPod: PodProgram<ConnectPodStats, ConnectPodOptions, Command> = new PodProgram('connect-pod.mjs', {
  open: 0,
  opened: 0,
  running: 0,
  most: 0,
  requests: 0,
  paths: [],
});
