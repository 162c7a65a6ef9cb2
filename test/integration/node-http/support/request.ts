import * as http from 'node:http';
import * as https from 'node:https';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { Balancer } from 'evenkeel';
import type { HttpServiceAgent } from 'evenkeel/node-http';

/** An answer, read to its end. */
export interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
  /** Whether the socket had carried another request before. */
  readonly reused: boolean;
}

export interface Init extends Omit<http.RequestOptions, 'agent'> {
  readonly body?: string | Readable;
}

/** One request as people write it with node:http. */
export function send(agent: http.Agent, url: string, init: Init = {}): Promise<Answer> {
  const { body, ...options } = init;
  return new Promise((resolve, reject) => {
    const { request } = url.startsWith('https:') ? https : http;
    const outgoing = request(url, { agent, ...options } as http.RequestOptions, (response) => {
      const { statusCode = 0, headers } = response;
      text(response).then((all) => {
        resolve({ status: statusCode, headers, body: all, reused: outgoing.reusedSocket });
      }, reject);
    });
    outgoing.on('error', reject);
    if (body instanceof Readable) body.pipe(outgoing);
    else outgoing.end(body);
  });
}

/** Requests that have a pod, and those that wait for one. */
export function running(agent: { readonly balancer: Balancer<http.Agent> }): number {
  const { waiting, endpoints } = agent.balancer.snapshot();
  return endpoints.reduce((sum, { inFlight }) => sum + inFlight, waiting);
}

/** The `code` of what a promise rejects with. */
export async function codeOf(failing: Promise<unknown>): Promise<unknown> {
  try {
    await failing;
    return 'it did not fail';
  } catch (error) {
    return (error as { code?: unknown }).code;
  }
}

/** Agents a test opened, closed after it. */
export class Opened {
  readonly #agents: HttpServiceAgent[] = [];

  add<T extends HttpServiceAgent>(agent: T): T {
    this.#agents.push(agent);
    return agent;
  }

  async destroyAll(): Promise<void> {
    for (const agent of this.#agents.splice(0)) {
      agent.destroy();
      await agent.close();
    }
  }
}
