import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('other-service.mjs', import.meta.url));

/** What reached the other Service's pod. */
export interface OtherCounts {
  readonly connections: number;
  /** Every byte, those of TLS handshakes included. */
  readonly rawBytes: number;
  /** What a server makes of them: the bytes below TLS. */
  readonly requestBytes: number;
  /** `x-id` of the requests among them. */
  readonly ids: readonly string[];
}

/** A pod of another Service on a port that was one of ours. */
export class OtherService implements AsyncDisposable {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async start(options: { readonly port: number; readonly tls?: object }): Promise<OtherService> {
    const child = fork(program, [JSON.stringify(options)], { execArgv: [] });
    await once(child, 'message');
    return new OtherService(child);
  }

  async counts(): Promise<OtherCounts> {
    const answer = once(this.#child, 'message');
    this.#child.send({});
    return ((await answer) as [{ counts: OtherCounts }])[0].counts;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exited;
  }
}
