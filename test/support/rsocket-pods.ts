import { PodProgram, type ServerOptions, type ServerProcess } from './pod-program.js';

export interface RSocketPodStats {
  /** Connections open now. */
  readonly open: number;
  /** Requests that wait for `release`. */
  readonly held: number;
  /** By type. */
  readonly requests: Readonly<Record<string, number>>;
  /** Of each request that came. */
  readonly data: readonly string[];
  /** Of each METADATA_PUSH frame. */
  readonly pushed: readonly string[];
  /** Payloads of SETUP frames. */
  readonly setups: readonly string[];
}

export interface RSocketPodOptions extends ServerOptions {
  /** Takes no request that it has not granted. */
  readonly lease?: boolean;
  /** Refuses every connection. */
  readonly refuse?: boolean;
  readonly tls?: { readonly cert: string; readonly key: string };
}

type Command = 'release' | 'grant' | 'leave' | 'end' | 'reset';

/** An RSocket server. What it answers: `rsocket-pod.mjs`. */
export type RSocketPod = ServerProcess<RSocketPodStats, Command>;
export const RSocketPod: PodProgram<RSocketPodStats, RSocketPodOptions, Command> = new PodProgram('rsocket-pod.mjs', {
  open: 0,
  held: 0,
  requests: {},
  data: [],
  pushed: [],
  setups: [],
});
