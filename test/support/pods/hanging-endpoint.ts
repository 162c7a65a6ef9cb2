import { connect, type Socket } from 'node:net';
import { freePort } from '../programs/free-port.js';
import { until } from '../until.js';
import { Pod } from './pods.js';

/** An endpoint that neither accepts nor refuses connections, as if its machine had lost power. */
export class HangingEndpoint implements AsyncDisposable {
  readonly #pod: Pod;
  readonly #fillers: readonly Socket[];

  private constructor(pod: Pod, fillers: readonly Socket[]) {
    this.#pod = pod;
    this.#fillers = fillers;
  }

  static async start(): Promise<HangingEndpoint> {
    const pod = await Pod.start({ name: 'hanging', backlog: 1 });
    return HangingEndpoint.seize(pod);
  }

  /** Makes a pod with `backlog: 1` hang: stops it and fills its connection queue. */
  static async seize(pod: Pod): Promise<HangingEndpoint> {
    pod.freeze();
    const fillers: Socket[] = [];
    let hanging = 0;
    // The kernel accepts a few more than asked for. Once two hang, all further ones do.
    while (hanging < 2) {
      const socket = connect(pod.port, '127.0.0.1').on('error', () => {});
      fillers.push(socket);
      let connected = false;
      socket.once('connect', () => {
        connected = true;
      });
      await until('connected or not', () => connected, 250).catch(() => {});
      // First read what the kernel has reported: maybe this process was the one that did not run.
      await new Promise((resolve) => setTimeout(resolve, 0));
      await new Promise((resolve) => setImmediate(resolve));
      if (!connected) hanging++;
    }
    return new HangingEndpoint(pod, fillers);
  }

  get endpoint(): { readonly address: string; readonly port: number } {
    return this.#pod.endpoint;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#fillers) socket.destroy();
    await this.#pod[Symbol.asyncDispose]();
  }
}

/** A port on loopback where nothing listens. */
export async function refusingEndpoint(): Promise<{ readonly address: string; readonly port: number }> {
  return { address: '127.0.0.1', port: await freePort() };
}
