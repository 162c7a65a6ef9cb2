import type { ClientRequest, Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { type Clock, EvenkeelError } from '../../index.js';
import { endWithoutSocket, type RequestOptions, type RequestTaker } from '../http/internals.js';
import type { MockedDial } from '../http/mocked-dial.js';
import { nodeHttp } from '../kit/index.js';

/** What `Fallback` needs to send requests to other hosts. */
export interface FallbackOptions {
  /** The application's agent for other hosts, which evenkeel never destroys. */
  readonly fallbackAgent: RequestTaker | undefined;
  /** The target's protocol, which an agent that evenkeel creates has too. */
  readonly protocol: string;
  readonly clock: Clock;
  /** How an Agent that evenkeel creates opens sockets. @defaultValue as Node does */
  readonly dial?: MockedDial | undefined;
  /** How long the Agent's running requests may take to finish at `close`, in ms. */
  readonly drainTimeoutMs: number;
}

/** Sends requests for other hosts: by the application's agent, or by an Agent that is created on first use. */
export class Fallback {
  readonly #options: FallbackOptions;
  #agent: HttpAgent | undefined;
  #closed = false;

  constructor(options: FallbackOptions) {
    this.#options = options;
  }

  /** The agent for other hosts that evenkeel created, if one was needed. */
  get own(): HttpAgent | undefined {
    return this.#agent;
  }

  addRequest(request: ClientRequest, options: RequestOptions): void {
    if (this.#closed) endWithoutSocket(request, new EvenkeelError('EVENKEEL_CLOSED', 'the agent is closed'));
    else (this.#options.fallbackAgent ?? this.#ownAgent()).addRequest(request, options);
  }

  /** Lets running requests to other hosts finish, within the drain timeout. Never rejects. */
  async close(): Promise<void> {
    this.#closed = true;
    const agent = this.#agent;
    if (agent === undefined) return;
    const { clock, drainTimeoutMs } = this.#options;
    agent.keepSocketAlive = () => false;
    for (const idle of Object.values(agent.freeSockets).flat()) idle?.destroy();
    const busy = Object.values(agent.sockets).flat();
    const timer = Number.isFinite(drainTimeoutMs) ? clock.timer(() => agent.destroy(), drainTimeoutMs) : undefined;
    await Promise.all(busy.map((socket) => new Promise((resolve) => socket?.once('close', resolve))));
    timer?.cancel();
  }

  destroy(): void {
    this.#closed = true;
    this.#agent?.destroy();
  }

  #ownAgent(): RequestTaker {
    // The Agent has the options of Node's global agents.
    if (this.#agent === undefined) {
      const { protocol, dial } = this.#options;
      this.#agent = new (protocol === 'https:' ? HttpsAgent : nodeHttp.Agent)({ keepAlive: true, timeout: 5_000 });
      if (dial !== undefined) this.#agent.createConnection = opener(dial);
    }
    return this.#agent as HttpAgent & RequestTaker;
  }
}

/** The method that Node's Agent calls for a new socket, for an Agent whose sockets a mock takes for sockets to the Service. */
function opener(dial: MockedDial): HttpAgent['createConnection'] {
  return ({ host, port }, created) => {
    dial.connect({ host: host ?? 'localhost', port: Number(port) }, (error, socket) => {
      created?.(error ?? null, socket);
    });
    return undefined;
  };
}
