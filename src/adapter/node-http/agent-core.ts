import { AsyncResource } from 'node:async_hooks';
import type { Agent, ClientRequest } from 'node:http';
import type { Socket } from 'node:net';
import { type Balancer, type Clock, EvenkeelError, type Priority } from '../../index.js';
import { checkHost, endWithoutSocket, type RequestOptions, socketsAreMocked } from '../http/internals.js';
import { MockedDial } from '../http/mocked-dial.js';
import type { OriginMatcher } from '../http/origin.js';
import { RequestDeadline } from '../http/request-deadline.js';
import { type TermRules, termsOf } from '../http/request-terms.js';
import { closeWhenServed, WaitingRequests } from '../http/waiting.js';
import { type AskForReports, formatDeadline, type Propagation, parseDeadline, SharedTimers } from '../kit/index.js';
import { type CallOwner, NodeHttpCall } from './call.js';
import { Fallback } from './fallback.js';
import type { PodAgent } from './pod-agent.js';
import type { PodTransport } from './transport.js';

/** What an agent of one Service needs. */
export interface AgentCoreParts {
  readonly origin: URL;
  readonly matcher: OriginMatcher;
  readonly fallback: Fallback;
  readonly rules: TermRules<ClientRequest>;
  readonly propagation: Propagation;
  readonly clock: Clock;
  readonly drainTimeoutMs: number;
  readonly askForReports: AskForReports;
  readonly transport: PodTransport;
  readonly balancer: Balancer<PodAgent>;
  /** Returns the error that a request's caller gets in place of `error`. @defaultValue `error` itself */
  readonly errorOf?: ((error: Error, host: string) => Error) | undefined;
}

/** Sockets or requests by a name for their host, as in the properties of Node's Agent. */
export type ByName<T> = Record<string, T[]>;

/** What evenkeel's agents do, the same for both of Node's Agent classes. */
export class AgentCore implements CallOwner {
  readonly balancer: Balancer<PodAgent>;
  readonly clock: Clock;
  readonly timers: SharedTimers;
  readonly #waiting = new Set<ClientRequest>();
  readonly #waitingCount = new WaitingRequests();
  readonly #parts: AgentCoreParts;
  /** Where requests go while a library mocks sockets, because mocks know the Service and not its pods. */
  readonly #mocked: Fallback;
  readonly #mockedDial: MockedDial;
  /** The target's host and port, as requests name them. */
  readonly #host: string;
  readonly #port: number;
  #closing: Promise<void> | undefined;

  constructor(parts: AgentCoreParts) {
    this.#parts = parts;
    this.balancer = parts.balancer;
    this.clock = parts.clock;
    this.timers = new SharedTimers(parts.clock);
    const { hostname, port, protocol } = parts.origin;
    const dial = new MockedDial(parts.balancer, parts.transport.dial);
    this.#mockedDial = dial;
    const { clock, drainTimeoutMs } = parts;
    this.#mocked = new Fallback({ fallbackAgent: undefined, protocol, clock, drainTimeoutMs, dial });
    this.#host = hostname;
    this.#port = Number(port || (protocol === 'https:' ? 443 : 80));
  }

  get origin(): string {
    return this.#parts.matcher.origin;
  }

  get isClosing(): boolean {
    return this.balancer.snapshot().state === 'closed';
  }

  get askForReports(): AskForReports {
    return this.#parts.askForReports;
  }

  errorOf(error: Error): Error {
    return this.#parts.errorOf?.(error, `${this.#host}:${this.#port}`) ?? error;
  }

  waits(request: ClientRequest): void {
    this.#waiting.add(request);
    this.#waitingCount.add();
  }

  served(request: ClientRequest): void {
    this.#waiting.delete(request);
    this.#waitingCount.remove();
  }

  addRequest(request: ClientRequest, options: RequestOptions): void {
    if (request.destroyed || this.#isOurs(request, options)) this.acceptRequest(request, options);
    else this.#parts.fallback.addRequest(request, options);
  }

  /** Accepts a request that is known to be for the target, however it spells the target. */
  acceptRequest(request: ClientRequest, options: RequestOptions): void {
    // The request's caller gave it up before, for example by a signal that was already aborted.
    if (request.destroyed) endWithoutSocket(request);
    else if (this.#closing !== undefined)
      endWithoutSocket(request, this.errorOf(new EvenkeelError('EVENKEEL_CLOSED', 'the agent is closed')));
    else if (socketsAreMocked()) this.#mocked.addRequest(request, options);
    else {
      checkHost(request, options);
      this.#begin(request);
    }
  }

  /**
   * Opens a socket to a pod; returns undefined for another host. evenkeel's own requests do not call this. nock 14 and msw 2 do, for
   * requests that they let through: they replace a request's Agent with their own, and use the original only for sockets.
   */
  connectToPod({ host, port }: RequestOptions): Socket | undefined {
    const target = { host: host ?? 'localhost', port: Number(port) };
    return this.#isTarget(target.host, target.port) ? this.#mockedDial.connectToPod(target) : undefined;
  }

  close(): Promise<void> {
    const { balancer, clock } = this;
    const { drainTimeoutMs } = this.#parts;
    this.#closing ??= this.#end(closeWhenServed({ balancer, waiting: this.#waitingCount, clock, drainTimeoutMs }));
    return this.#closing;
  }

  destroy(): void {
    const cut = new AbortController();
    const ended = this.#end(this.balancer.close({ signal: cut.signal }));
    this.#closing ??= ended;
    // The signal aborts only now, because a balancer that is already closing listens to it.
    cut.abort();
    this.#parts.fallback.destroy();
    this.#mocked.destroy();
  }

  /** All sockets in use or idle: those to pods by the pod's address, those to other hosts by Node's name for them. */
  socketsOf(kind: 'sockets' | 'freeSockets'): ByName<Socket> {
    const byName: ByName<Socket> = {};
    const { transport, fallback } = this.#parts;
    const agents: Agent[] = [...transport.open];
    for (const { own } of [fallback, this.#mocked]) if (own !== undefined) agents.push(own);
    for (const agent of agents) {
      for (const [name, sockets] of Object.entries(agent[kind]))
        byName[name] = [...(byName[name] ?? []), ...(sockets ?? [])];
    }
    return byName;
  }

  /** The requests that wait for a pod, under the name of the target. */
  get requests(): ByName<ClientRequest> {
    return this.#waiting.size === 0 ? {} : { [`${this.#host}:${this.#port}:`]: [...this.#waiting] };
  }

  #begin(request: ClientRequest): void {
    const { rules, propagation } = this.#parts;
    const { key, priority, ownMs, inheritedMs } = termsOf(request, rules, propagation);
    const call = new NodeHttpCall(this, request, key);
    call.priority = priority;
    let remainingMs: number | undefined;
    if (ownMs !== undefined || inheritedMs !== undefined) {
      // The timers of `SharedTimers` have no async context, but this callback must run in the caller's.
      const timedOut = AsyncResource.bind(() => call.timedOut());
      const deadline = new RequestDeadline(this, ownMs, inheritedMs, { timedOut });
      call.limit(deadline);
      remainingMs = deadline.limitMs;
    }
    setPropagatedHeaders(request, propagation, remainingMs, priority);
    call.begin();
  }

  /** Whether a request is for the agent's target. Neither the target nor other hosts may get each other's requests. */
  #isOurs(request: ClientRequest, options: RequestOptions): boolean {
    const { matcher } = this.#parts;
    const { host, port, socketPath } = options;
    if (socketPath) return false;
    const { path, method } = request;
    // A request whose path is a URL of another origin is meant for a proxy.
    if (path.charCodeAt(0) !== SLASH && method !== 'CONNECT' && !namesOrigin(path, matcher)) return false;
    return this.#isTarget(host, Number(port));
  }

  #isTarget(host: string | null | undefined, port: number): boolean {
    const { matcher, origin } = this.#parts;
    // Nearly every request spells the target as the target's own URL does.
    if (host === this.#host && port === this.#port) return true;
    const name = host?.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
    return matcher.matches(`${origin.protocol}//${name}:${port}`);
  }

  async #end(balancer: Promise<void>): Promise<void> {
    await Promise.all([balancer, this.#parts.fallback.close(), this.#mocked.close()]);
    this.timers.close();
  }
}

const SLASH = 47;

/**
 * Sets the headers with a request's remaining time and its priority, unless Node has already built its head. The time is never longer than
 * what the caller's own header says.
 */
function setPropagatedHeaders(
  request: ClientRequest,
  { deadlineHeader, priorityHeader }: Propagation,
  remainingMs: number | undefined,
  priority: Priority | undefined,
): void {
  if (request.headersSent || request.method === 'CONNECT' || request.hasHeader('upgrade')) return;
  if (remainingMs !== undefined && deadlineHeader !== undefined) {
    const callersMs = parseDeadline(request.getHeader(deadlineHeader));
    if (callersMs === undefined || remainingMs < callersMs)
      request.setHeader(deadlineHeader, formatDeadline(remainingMs));
  }
  if (priority === undefined || priority === 'default' || priorityHeader === undefined) return;
  if (!request.hasHeader(priorityHeader)) request.setHeader(priorityHeader, priority);
}

/** Whether a request's path names the target: `*` does, and anything else that is not a path must be a URL of the target. */
function namesOrigin(path: string, matcher: OriginMatcher): boolean {
  return !/^[a-z][a-z0-9+.-]*:/i.test(path) || (URL.canParse(path) && matcher.matches(new URL(path).origin));
}
