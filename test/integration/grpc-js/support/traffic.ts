import { type EchoClient, type SayError, type SayOptions, say } from './client.js';

/** What became of the calls of some traffic. */
export interface TrafficResult {
  readonly calls: number;
  /** `code: details` of each failed call. */
  readonly failures: readonly string[];
  /** Those among them whose answer had not begun. */
  readonly unanswered: readonly string[];
  /** Names of the pods that answered, in the order of their answers. */
  readonly pods: readonly string[];
}

/** Unary calls, `callers` at a time, one after the other each, until `stop`. */
export class Traffic {
  readonly failures: string[] = [];
  readonly unanswered: string[] = [];
  readonly pods: string[] = [];
  calls = 0;
  #stopping = false;
  readonly #callers: Promise<void>[];

  constructor(client: EchoClient, callers: number, options: () => SayOptions = () => ({})) {
    this.#callers = Array.from({ length: callers }, () => this.#call(client, options));
  }

  async stop(): Promise<TrafficResult> {
    this.#stopping = true;
    await Promise.all(this.#callers);
    return this;
  }

  async #call(client: EchoClient, options: () => SayOptions): Promise<void> {
    while (!this.#stopping) {
      this.calls++;
      try {
        this.pods.push((await say(client, options())).pod);
      } catch (error) {
        const { code, details, answered } = error as SayError;
        this.failures.push(`${code}: ${details}`);
        if (!answered) this.unanswered.push(`${code}: ${details}`);
      }
    }
  }
}
