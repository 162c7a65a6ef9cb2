import { get } from 'node:http';
import type { PodConnectionParts as CommonParts, PodUser } from '../http/pod-connection.js';
import { openPodConnection as open, type PodConnection } from '../http/pod-connection.js';
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

  ask(path: string, signal: AbortSignal): Promise<number | undefined> {
    const { protocol, host } = this.#origin;
    return new Promise((resolve, reject) => {
      const request = get({ agent: this.handle, protocol, path, headers: { host }, signal }, (response) => {
        response.resume();
        response.once('end', () => resolve(response.statusCode)).once('error', reject);
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
