import { PodProgram, type ServerOptions, type ServerProcess } from './pod-program.js';

export interface WsPodStats {
  /** WebSockets open now. */
  readonly open: number;
  readonly accepted: number;
  readonly refused: number;
  /** By close code; for socket.io by its reason. */
  readonly closes: Readonly<Record<string, number>>;
  /** Times of new WebSockets, in ms since the epoch. */
  readonly arrivals: readonly number[];
  /** Connections open now. */
  readonly sockets: number;
}

export interface WsPodOptions extends ServerOptions {
  readonly kind?: 'ws' | 'socket.io' | 'graphql';
  /** Opens no WebSocket: answers 503, or closes the connection. */
  readonly refuses?: 'status' | 'hang-up';
  readonly tls?: { readonly cert: string; readonly key: string };
}

type Command = 'cut' | 'welcome' | 'nothing';

/** A WebSocket server. Its behavior: `ws-pod.mjs`. */
export type WsPod = ServerProcess<WsPodStats, Command>;
export const WsPod: PodProgram<WsPodStats, WsPodOptions, Command> = new PodProgram('ws-pod.mjs', {
  open: 0,
  accepted: 0,
  refused: 0,
  closes: {},
  arrivals: [],
  sockets: 0,
});
