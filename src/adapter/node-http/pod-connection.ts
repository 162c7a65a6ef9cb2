import { get, type IncomingMessage } from 'node:http';
import type { PodConnectionParts as CommonParts, PodUser, Question } from '../http/pod-connection.js';
import { MOST_OF_ANSWER, openPodConnection as open, type PodConnection } from '../http/pod-connection.js';
import type { PodLink } from '../http/pod-link.js';
import { PodAgent } from './pod-agent.js';

/** The parts of a pod's connection. */
export interface PodConnectionParts extends CommonParts {
  readonly keepAliveTimeoutMs: number;
}

/** Opens the first socket to an endpoint and wraps it. Rejects with the reason; after an abort nothing stays open. */
export function openPodConnection(parts: PodConnectionParts, signal: AbortSignal): Promise<PodConnection<PodAgent>> {
  return open(parts, { capacity: () => parts.connections, user: (link) => new AgentUser(parts, link) }, signal);
}

/** One pod for `node:http`: a keep-alive Agent whose sockets go to its address. */
class AgentUser implements PodUser<PodAgent> {
  readonly handle: PodAgent;
  readonly #origin: URL;
  readonly #link: PodLink;

  constructor({ endpoint, dial, connections, keepAliveTimeoutMs, clock }: PodConnectionParts, link: PodLink) {
    this.#origin = dial.origin;
    this.#link = link;
    this.handle = new PodAgent({ endpoint, origin: dial.origin, link, connections, keepAliveTimeoutMs, clock });
  }

  async ask(path: string, signal: AbortSignal): Promise<number | undefined> {
    return (await this.#get(path, {}, signal)).statusCode;
  }

  get hasIdle(): boolean {
    return this.handle.hasIdle || this.#link.sockets.hasSpare;
  }

  async put(
    { path, headers: own, wanted }: Question,
    signal: AbortSignal,
  ): Promise<{ readonly status: number | undefined; readonly header: unknown }> {
    const { statusCode, headers } = await this.#get(path, own, signal, MOST_OF_ANSWER);
    return { status: statusCode, header: headers[wanted] };
  }

  /** Resolves with the answer once it is complete; what its body says is of no interest. */
  #get(
    path: string,
    own: Readonly<Record<string, string>>,
    signal: AbortSignal,
    mostBytes = Number.POSITIVE_INFINITY,
  ): Promise<IncomingMessage> {
    const { protocol, host } = this.#origin;
    return new Promise((resolve, reject) => {
      const request = get({ agent: this.handle, protocol, path, headers: { host, ...own }, signal }, (response) => {
        let left = mostBytes;
        response.on('data', (chunk: Buffer) => {
          left -= chunk.length;
          if (left < 0) response.destroy(new Error('the answer is too long'));
        });
        response.once('end', () => resolve(response)).once('error', reject);
      });
      request.once('error', (error) => reject(signal.aborted ? signal.reason : error));
    });
  }

  finish(): Promise<void> {
    this.handle.stop();
    return this.#link.finished();
  }

  cut(): void {
    this.handle.cut();
  }
}
