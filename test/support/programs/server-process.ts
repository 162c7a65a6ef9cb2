/** A real server for tests: a process with its own data. */
export interface ServerProcess {
  readonly name: string;
  readonly running: boolean;
  /** Its log since the last start. */
  readonly log: string;
  /** Also restarts one that was killed or stopped, on its old port. Resolves once it accepts connections. */
  start(): Promise<void>;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** SIGTERM: it closes its connections, then exits. */
  stop(): Promise<void>;
  /** SIGSTOP: its kernel still accepts connections, but it answers nothing. */
  freeze(): void;
  thaw(): void;
}
