import type { Payload } from 'rsocket-core';
import {
  createRSocket,
  type RequestResponseOptions,
  type RSocketOptions,
  type ServiceRSocket,
} from '../../../examples/rsocket/adapter/index.js';
import { type ObserverEvents, roundRobin, staticEndpoints } from '../../../src/index.js';
import { until } from '../until.js';
import { RSocketPod, type RSocketPodOptions } from './rsocket-pods.js';

type AttemptEnded = ObserverEvents['attemptEnded'];

/** Pods, and an RSocket with round robin that is connected to all of them. `open` disposes of them. */
export async function startRSocket(
  open: AsyncDisposable[],
  count: number,
  options: RSocketOptions = {},
  podOptions: RSocketPodOptions = {},
): Promise<{
  readonly pods: RSocketPod[];
  readonly rsocket: ServiceRSocket;
  readonly attempts: AttemptEnded[];
  readonly pod: RSocketPod;
  readonly other: RSocketPod;
}> {
  const pods = await RSocketPod.startAll(count, podOptions);
  const attempts: AttemptEnded[] = [];
  const rsocket = createRSocket('orders.shop:7000', {
    resolver: staticEndpoints(pods.map(({ endpoint }) => endpoint)),
    picker: roundRobin(),
    observer: { attemptEnded: (event) => void attempts.push(event) },
    ...options,
  });
  open.push(...pods, { [Symbol.asyncDispose]: () => rsocket.close(new Error('the test is over')) });
  if (options.resolver === undefined) await connected(rsocket, count);
  return { pods, rsocket, attempts, pod: pods[0] as RSocketPod, other: pods[1] as RSocketPod };
}

export const connected = (rsocket: ServiceRSocket, count: number): Promise<void> =>
  until('it is connected', () => states(rsocket).filter((state) => state === 'ready').length === count);

export const states = (rsocket: ServiceRSocket): string[] =>
  rsocket.balancer.snapshot().endpoints.map(({ state }) => state);

/** Leases that have not ended. */
export const running = (rsocket: ServiceRSocket): number =>
  rsocket.balancer.snapshot().endpoints.reduce((sum, { inFlight }) => sum + inFlight, 0);

export const kinds = (attempts: readonly AttemptEnded[]): unknown[] =>
  attempts.map(({ outcome: { kind, cause }, retrying }) => [kind, cause, retrying]);

/** A receiver that records its events. */
export class Heard {
  readonly data: string[] = [];
  error: (Error & { readonly code?: unknown }) | undefined;
  completed = false;
  /** How many payloads the other side of a channel asks for. */
  requested = 0;
  cancelled = false;

  onNext(payload: Payload, isComplete: boolean): void {
    this.data.push(String(payload.data));
    if (isComplete) this.completed = true;
  }

  onError(error: Error): void {
    this.error = error;
  }

  onComplete(): void {
    this.completed = true;
  }

  onExtension(): void {}

  request(n: number): void {
    this.requested += n;
  }

  cancel(): void {
    this.cancelled = true;
  }

  /** Resolves when the stream has ended; rejects with its error. */
  async ended(): Promise<readonly string[]> {
    await until('it ended', () => this.completed || this.error !== undefined);
    if (this.error !== undefined) throw this.error;
    return this.data;
  }
}

export const payload = (data: string): Payload => ({ data: Buffer.from(data) });

/** Sends a request and returns the response. */
export async function ask(rsocket: ServiceRSocket, data: string, options?: RequestResponseOptions): Promise<string> {
  const heard = new Heard();
  rsocket.requestResponse(payload(data), heard, options);
  const [answer = ''] = await heard.ended();
  return answer;
}
