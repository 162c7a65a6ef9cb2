import { PodProgram, type ServerOptions, type ServerProcess } from './pod-program.js';

export interface RSocketPodStats {
  /** Connections open now. */
  readonly open: number;
  /** Requests waiting for `release`. */
  readonly held: number;
  /** By type. */
  readonly requests: Readonly<Record<string, number>>;
  /** Of each request received. */
  readonly data: readonly string[];
  /** Of each METADATA_PUSH frame. */
  readonly pushed: readonly string[];
  /** Payloads of SETUP frames. */
  readonly setups: readonly string[];
}

export interface RSocketPodOptions extends ServerOptions {
  /** Accepts no request beyond those it has granted. */
  readonly lease?: boolean;
  /** Refuses every connection. */
  readonly refuse?: boolean;
  readonly tls?: { readonly cert: string; readonly key: string };
}

type Command = 'release' | 'grant' | 'leave' | 'end' | 'reset';

/** An RSocket server. Its responses: `rsocket-pod.mjs`. */
export type RSocketPod = ServerProcess<RSocketPodStats, Command>;
export const RSocketPod: PodProgram<RSocketPodStats, RSocketPodOptions, Command> = new PodProgram('rsocket-pod.mjs', {
  open: 0,
  held: 0,
  requests: {},
  data: [],
  pushed: [],
  setups: [],
});
