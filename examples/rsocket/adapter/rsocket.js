import { outcomes } from 'evenkeel';
import {
  Attempts,
  asError,
  checkBoolean,
  checkKeys,
  checkNumber,
  checkString,
  notify,
  optionError,
  poolDefaults,
  serviceBalancer,
} from 'evenkeel/adapter';
import { rsocketTransport } from './connection.js';
import { connectionSettings, rsocketTable } from './options.js';
import { failedStream, GuardedSide, Stream } from './outcome.js';

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
export function createRSocket(target, options = {}) {
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

class BalancedRSocket {
  balancer;
  #clock;
  #closeTimeoutMs;
  /** Resolves when this is closed, with the error for which it was; undefined until `close` is called. */
  #closed;
  #closeCallbacks = [];

  constructor(balancer, clock, closeTimeoutMs) {
    this.balancer = balancer;
    this.#clock = clock;
    this.#closeTimeoutMs = closeTimeoutMs;
  }

  fireAndForget(payload, receiver, options) {
    return this.#call('fireAndForget', payload, receiver, options);
  }

  requestResponse(payload, receiver, options) {
    return this.#call('requestResponse', payload, receiver, options);
  }

  requestStream(payload, initialRequestN, receiver, options) {
    return this.#call('requestStream', payload, receiver, options, checkRequestN(initialRequestN));
  }

  requestChannel(payload, initialRequestN, isCompleted, receiver, options) {
    return this.#call('requestChannel', payload, receiver, options, checkRequestN(initialRequestN), isCompleted);
  }

  metadataPush(metadata, receiver, options) {
    this.#call('metadataPush', { data: null, metadata }, receiver, options);
  }

  close(error) {
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

  onClose(callback) {
    if (this.#closed === undefined) this.#closeCallbacks.push(callback);
    else void this.#closed.then((error) => this.#tell(callback, error));
  }

  /** Calls a callback of `onClose`. One that throws must not keep the others from being called. */
  #tell(callback, error) {
    try {
      callback(error);
    } catch (thrown) {
      notify(this.balancer.observer, 'warned', { message: 'a callback of onClose threw', error: thrown });
    }
  }

  async [Symbol.asyncDispose]() {
    await this.close();
  }

  #call(type, payload, receiver, options, requestN = 0, isCompleted = true) {
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
    const call = new RSocketCall(this.balancer, request, receiver, this.#clock, key);
    call.begin();
    return call;
  }
}

const MAX_REQUEST_N = 0x7fffffff;

function checkRequestN(value) {
  return checkNumber('initialRequestN', value, 1, { min: 1, max: MAX_REQUEST_N, integer: true });
}

/** One RSocket call through all its attempts. Its caller gets this object too, as the sending side of the stream. */
class RSocketCall {
  receiver;
  #attempts;
  #request;
  #clock;
  #stream;
  /** Extension frames that the caller sent before the first response, kept because the stream may begin later, or again. */
  #extensions = [];
  #answeredMs;
  /** Whether the caller gave the request up, or was notified of its failure. */
  #isOver = false;

  constructor(balancer, request, receiver, clock, key) {
    this.receiver = new GuardedSide(receiver, () => this.cancel());
    this.#attempts = new Attempts(balancer, this, key);
    this.#request = request;
    this.#clock = clock;
  }

  begin() {
    if (!this.#attempts.begin()) this.#attempts.wait();
  }

  // The attempts of this call call the methods that follow.

  facts() {
    return { protocol: 'rsocket', method: this.#request.type };
  }

  send({ handle }) {
    const request = this.#request;
    if (!handle.isOpen) {
      this.#fail(outcomes.notStarted, new Error('the connection was closed'), { resend: 'free' });
      return;
    }
    try {
      if (request.type === 'metadataPush') {
        handle.pushMetadata(request.payload.metadata);
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

  fail(error) {
    if (this.#isOver) return;
    this.#isOver = true;
    this.receiver.onError(asError(error));
  }

  // The stream of this call calls the methods that follow.

  answered() {
    const { lease } = this.#attempts;
    lease?.progressed();
    if (this.#answeredMs !== undefined) return;
    this.#answeredMs = this.#clock.now();
    const { type } = this.#request;
    // A pod on probation is confirmed by the first response, because a stream of responses may last for days.
    if (type === 'requestStream' || type === 'requestChannel') lease?.confirm();
  }

  succeeded() {
    const { type } = this.#request;
    const lease = this.#attempts.conclude();
    if (lease === undefined) return;
    // A request without a response says nothing about its pod, so its attempt counts as cancelled.
    const isSentOnly = type === 'fireAndForget' || type === 'metadataPush';
    const isStream = type !== 'requestResponse' && this.#answeredMs !== undefined;
    const latencyMs = isStream ? this.#answeredMs - lease.startedMs : undefined;
    lease.end(isSentOnly ? outcomes.cancelled : outcomes.success, latencyMs);
    this.#attempts.report(lease, { outcome: outcomes.success });
  }

  failed(error) {
    const { outcome, refused } = failedStream(error);
    if (outcome.kind === 'success') {
      this.#attempts.end(outcome, { error });
      this.fail(error);
    } else this.#fail(outcome, error, refused ? { repeatAs: outcomes.notStarted, refused } : {});
  }

  #fail(outcome, error, more) {
    const { idempotent, type } = this.#request;
    const answered = this.#attempts.lease?.answered === true;
    // A channel cannot be repeated, because payloads that its caller has sent meanwhile would be lost.
    const resend = type === 'requestChannel' ? 'never' : 'paid';
    this.#attempts.fail({ outcome, error, idempotent, answered, resend, ...more });
  }

  // The caller of this request calls the methods that follow.

  request(n) {
    const request = this.#request;
    if (this.#answeredMs === undefined && n > 0) request.requestN = Math.min(request.requestN + n, MAX_REQUEST_N);
    this.#running?.sender.request(n);
  }

  cancel() {
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

  onNext(payload, isLast) {
    const stream = this.#stream;
    if (stream === undefined)
      throw new Error('a channel sends what request(n) asked for, and nothing was asked for yet');
    if (stream.isOver) return;
    stream.sender.onNext(payload, isLast);
    if (isLast) stream.endRequest();
  }

  onComplete() {
    this.#request.isCompleted = true;
    const stream = this.#running;
    stream?.sender.onComplete();
    stream?.endRequest();
  }

  onError(error) {
    if (this.#isOver) return;
    this.#attempts.stop(undefined, error);
    const stream = this.#running;
    stream?.abandon();
    stream?.sender.onError(error);
    this.#attempts.end(outcomes.cancelled, { error });
    if (this.#stream?.answerEnded !== true) this.fail(error);
  }

  onExtension(...extension) {
    if (this.#answeredMs === undefined) this.#extensions.push(extension);
    this.#running?.sender.onExtension(...extension);
  }

  get #running() {
    return this.#stream?.isOver === false ? this.#stream : undefined;
  }
}
