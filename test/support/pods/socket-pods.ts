import { PodProgram, type ServerOptions, type ServerProcess } from './pod-program.js';

export interface SocketPodStats {
  /** Connections open now. */
  readonly open: number;
  readonly accepted: number;
  /** Connections whose client has finished. */
  readonly ended: number;
  readonly received: string;
}

export interface SocketPodOptions extends ServerOptions {
  readonly tls?: { readonly cert: string; readonly key: string };
  readonly silent?: boolean;
  readonly brief?: boolean;
}

type Command = 'end' | 'reset' | 'refuse';

/** A server of plain or TLS sockets. Its behavior: `socket-pod.mjs`. */
export type SocketPod = ServerProcess<SocketPodStats, Command>;
export const SocketPod: PodProgram<SocketPodStats, SocketPodOptions, Command> = new PodProgram('socket-pod.mjs', {
  open: 0,
  accepted: 0,
  ended: 0,
  received: '',
});
