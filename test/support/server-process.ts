/** A real server of the tests: a process of its own with its own data. */
export interface ServerProcess {
  readonly name: string;
  readonly running: boolean;
  /** What it logged since it was started last. */
  readonly log: string;
  /** Also brings back one that was killed or stopped, on its old port. Resolves once it accepts connections. */
  start(): Promise<void>;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** SIGTERM: it closes its connections, then exits. */
  stop(): Promise<void>;
  /** SIGSTOP: its kernel still accepts connections, but it answers nothing. */
  freeze(): void;
  thaw(): void;
}
