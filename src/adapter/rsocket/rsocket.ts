import type { Cancellable, OnTerminalSubscriber, Payload } from 'rsocket-core';
import { type Balancer, type Clock, type Lease, type Outcome, outcomes } from '../../index.js';
import {
  type AttemptedCall,
  Attempts,
  asError,
  type CallFacts,
  checkBoolean,
  checkKeys,
  checkNumber,
  checkString,
  type FailedAttempt,
  notify,
  optionError,
  poolDefaults,
  serviceBalancer,
} from '../kit/index.js';
import { type PodRSocket, rsocketTransport } from './connection.js';
import {
  type CallOptions,
  connectionSettings,
  type Receiver,
  type RequestResponseOptions,
  type RSocketOptions,
  rsocketTable,
  type ServiceRSocket,
  type Side,
} from './options.js';
import { failedStream, GuardedSide, type Request, Stream, type StreamOwner } from './outcome.js';

/**
 * Creates an RSocket for one Service, used like one that the library's `RSocketConnector` opens. It keeps a connection to each pod and
 * picks a pod for every request. Must be closed.
 *
 * @param target Such as `orders.shop:7000`.
 * @throws EVENKEEL_OPTION for an invalid target or option.
 * @example
 * const orders = createRSocket('orders.shop:7000');
 * orders.requestResponse({ data: Buffer.from('42') }, receiver, { idempotent: true });
 */
export function createRSocket(target: string, options: RSocketOptions = {}): ServiceRSocket {
  const settings = connectionSettings(options);
  const { pool = {} } = options;
  const isObject = typeof pool === 'object' && pool !== null;
  // A stream may last for days, and its pod decides when it ends, so draining pods have no timeout.
  const lasting = isObject ? { ...pool, drainTimeoutMs: pool.drainTimeoutMs ?? Number.POSITIVE_INFINITY } : pool;
  const balancer = serviceBalancer(target, { ...options, pool: lasting }, rsocketTable.names, ({ host }) =>
    rsocketTransport(settings, host),
  );
  return new BalancedRSocket(balancer, settings.clock, pool.drainTimeoutMs ?? poolDefaults.drainTimeoutMs);
}

class BalancedRSocket implements ServiceRSocket {
  readonly balancer: Balancer<PodRSocket>;
  readonly #clock: Clock;
  readonly #closeTimeoutMs: number;
  /** Resolves when this is closed, with the error for which it was; undefined until `close` is called. */
  #closed: Promise<Error | undefined> | undefined;
  readonly #closeCallbacks: ((error?: Error) => void)[] = [];

  constructor(balancer: Balancer<PodRSocket>, clock: Clock, closeTimeoutMs: number) {
    this.balancer = balancer;
    this.#clock = clock;
    this.#closeTimeoutMs = closeTimeoutMs;
  }

  fireAndForget(payload: Payload, receiver: OnTerminalSubscriber, options?: CallOptions): Cancellable {
    return this.#call('fireAndForget', payload, receiver, options);
  }

  requestResponse(payload: Payload, receiver: Receiver, options?: RequestResponseOptions): RSocketCall {
    return this.#call('requestResponse', payload, receiver, options);
  }

  requestStream(payload: Payload, initialRequestN: number, receiver: Receiver, options?: CallOptions): RSocketCall {
    return this.#call('requestStream', payload, receiver, options, checkRequestN(initialRequestN));
  }

  requestChannel(
    payload: Payload,
    initialRequestN: number,
    isCompleted: boolean,
    receiver: Side,
    options?: CallOptions,
  ): RSocketCall {
    return this.#call('requestChannel', payload, receiver, options, checkRequestN(initialRequestN), isCompleted);
  }

  metadataPush(metadata: Buffer, receiver: OnTerminalSubscriber, options?: CallOptions): void {
    this.#call('metadataPush', { data: null, metadata }, receiver, options);
  }

  close(error?: Error): Promise<void> {
    const limit = new AbortController();
    const hasLimit = error === undefined && this.#closeTimeoutMs !== Number.POSITIVE_INFINITY;
    const timer = hasLimit ? this.#clock.timer(() => limit.abort(), this.#closeTimeoutMs) : undefined;
    if (error !== undefined) limit.abort(error);
    const closing = this.balancer.close({ signal: limit.signal }).finally(() => timer?.cancel());
    this.#closed ??= closing.then(() => {
      for (const callback of this.#closeCallbacks.splice(0)) this.#tell(callback, error);
      return error;
    });
    return closing;
  }

  onClose(callback: (error?: Error) => void): void {
    if (this.#closed === undefined) this.#closeCallbacks.push(callback);
    else void this.#closed.then((error) => this.#tell(callback, error));
  }

  /** Calls a callback of `onClose`. One that throws must not keep the others from being called. */
  #tell(callback: (error?: Error) => void, error: Error | undefined): void {
    try {
      callback(error);
    } catch (thrown) {
      notify(this.balancer.observer, 'warned', { message: 'a callback of onClose threw', error: thrown });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #call(
    type: Request['type'],
    payload: Payload,
    receiver: OnTerminalSubscriber,
    options: RequestResponseOptions | undefined,
    requestN = 0,
    isCompleted = true,
  ): RSocketCall {
    if (typeof receiver !== 'object' || receiver === null) throw optionError('receiver', 'an object', receiver);
    if (options !== undefined)
      checkKeys('options', options, type === 'requestResponse' ? ['key', 'idempotent'] : ['key']);
    const { key, idempotent } = options ?? {};
    if (key !== undefined) checkString('key', key);
    const request = {
      type,
      // The payload is copied, because it may be sent later or repeated, and the caller may have changed its object by then.
      payload: { ...payload },
      requestN,
      isCompleted,
      idempotent: checkBoolean('idempotent', idempotent, false),
    };
    const call = new RSocketCall(this.balancer, request, receiver as Side, this.#clock, key);
    call.begin();
    return call;
  }
}

const MAX_REQUEST_N = 0x7fffffff;

function checkRequestN(value: number): number {
  return checkNumber('initialRequestN', value, 1, { min: 1, max: MAX_REQUEST_N, integer: true });
}

/** One RSocket call through all its attempts. Its caller gets this object too, as the sending side of the stream. */
class RSocketCall implements AttemptedCall<PodRSocket>, StreamOwner, Side {
  readonly receiver: Side;
  readonly #attempts: Attempts<PodRSocket>;
  readonly #request: Request;
  readonly #clock: Clock;
  #stream: Stream | undefined;
  /** Extension frames that the caller sent before the first response, kept because the stream may begin later, or again. */
  readonly #extensions: Parameters<Side['onExtension']>[] = [];
  #answeredMs: number | undefined;
  /** Whether the caller gave the request up, or was notified of its failure. */
  #isOver = false;

  constructor(balancer: Balancer<PodRSocket>, request: Request, receiver: Side, clock: Clock, key: string | undefined) {
    this.receiver = new GuardedSide(receiver, () => this.cancel());
    this.#attempts = new Attempts(balancer, this, key);
    this.#request = request;
    this.#clock = clock;
  }

  begin(): void {
    if (!this.#attempts.begin()) this.#attempts.wait();
  }

  // The attempts of this call call the methods that follow.

  facts(): CallFacts {
    return { protocol: 'rsocket', method: this.#request.type };
  }

  send({ handle }: Lease<PodRSocket>): void {
    const request = this.#request;
    if (!handle.isOpen) {
      this.#fail(outcomes.notStarted, new Error('the connection was closed'), { untried: true });
      return;
    }
    try {
      if (request.type === 'metadataPush') {
        handle.pushMetadata(request.payload.metadata as Buffer);
        this.succeeded();
        this.receiver.onComplete();
        return;
      }
      const stream = new Stream(handle, request, this);
      this.#stream = stream;
      stream.begin(request);
      for (const extension of this.#extensions) stream.sender.onExtension(...extension);
    } catch (error) {
      this.#attempts.end(outcomes.notStarted, { error });
      this.fail(error);
    }
  }

  fail(error: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.receiver.onError(asError(error));
  }

  // The stream of this call calls the methods that follow.

  answered(): void {
    const { lease } = this.#attempts;
    lease?.progressed();
    if (this.#answeredMs !== undefined) return;
    this.#answeredMs = this.#clock.now();
    const { type } = this.#request;
    // A pod on probation is confirmed by the first response, because a stream of responses may last for days.
    if (type === 'requestStream' || type === 'requestChannel') lease?.confirm();
  }

  succeeded(): void {
    const { type } = this.#request;
    const lease = this.#attempts.conclude();
    if (lease === undefined) return;
    // A request without a response says nothing about its pod, so its attempt counts as cancelled.
    const isSentOnly = type === 'fireAndForget' || type === 'metadataPush';
    const isStream = type !== 'requestResponse' && this.#answeredMs !== undefined;
    const latencyMs = isStream ? (this.#answeredMs as number) - lease.startedMs : undefined;
    lease.end(isSentOnly ? outcomes.cancelled : outcomes.success, latencyMs);
    this.#attempts.report(lease, { outcome: outcomes.success });
  }

  failed(error: Error): void {
    const { outcome, refused } = failedStream(error);
    if (outcome.kind === 'success') {
      this.#attempts.end(outcome, { error });
      this.fail(error);
    } else this.#fail(outcome, error, refused ? { repeatAs: outcomes.notStarted, refused } : {});
  }

  #fail(outcome: Outcome, error: Error, more: Partial<FailedAttempt>): void {
    const { idempotent, type } = this.#request;
    const answered = this.#attempts.lease?.answered === true;
    // A channel cannot be repeated, because payloads that its caller has sent meanwhile would be lost.
    const repeatable = type !== 'requestChannel' || more.untried === true;
    this.#attempts.fail({ outcome, error, idempotent, answered, repeatable, ...more });
  }

  // The caller of this request calls the methods that follow.

  request(n: number): void {
    const request = this.#request;
    if (this.#answeredMs === undefined && n > 0) request.requestN = Math.min(request.requestN + n, MAX_REQUEST_N);
    this.#running?.sender.request(n);
  }

  cancel(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#attempts.stop();
    const stream = this.#running;
    if (stream === undefined) {
      if (!this.#request.isCompleted && this.#stream === undefined) this.receiver.cancel();
      return;
    }
    // The stream is marked as ended before it is cancelled, because the RSocket library calls back.
    stream.abandon();
    stream.sender.cancel();
    this.#attempts.end(outcomes.cancelled);
  }

  onNext(payload: Payload, isLast: boolean): void {
    const stream = this.#stream;
    if (stream === undefined)
      throw new Error('a channel sends what request(n) asked for, and nothing was asked for yet');
    if (stream.isOver) return;
    stream.sender.onNext(payload, isLast);
    if (isLast) stream.endRequest();
  }

  onComplete(): void {
    this.#request.isCompleted = true;
    const stream = this.#running;
    stream?.sender.onComplete();
    stream?.endRequest();
  }

  onError(error: Error): void {
    if (this.#isOver) return;
    this.#attempts.stop(undefined, error);
    const stream = this.#running;
    stream?.abandon();
    stream?.sender.onError(error);
    this.#attempts.end(outcomes.cancelled, { error });
    if (this.#stream?.answerEnded !== true) this.fail(error);
  }

  onExtension(...extension: Parameters<Side['onExtension']>): void {
    if (this.#answeredMs === undefined) this.#extensions.push(extension);
    this.#running?.sender.onExtension(...extension);
  }

  get #running(): Stream | undefined {
    return this.#stream?.isOver === false ? this.#stream : undefined;
  }
}
