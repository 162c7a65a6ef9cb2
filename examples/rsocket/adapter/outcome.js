import { outcomes } from 'evenkeel';
import { ErrorCodes } from 'rsocket-core';

/** One request on one RSocket connection: finds out when both sides of the stream have ended, and reports that to the connection. */
export class Stream {
  /** The library's side of the stream, to which the caller's payloads are passed. */
  sender;
  #pod;
  #owner;
  #answerEnded = false;
  #requestEnded;
  #isOver = false;

  constructor(pod, request, owner) {
    this.#pod = pod;
    this.#owner = owner;
    this.#requestEnded = request.type !== 'requestChannel' || request.isCompleted;
  }

  /** Whether the receiver was notified of the end of the response. */
  get answerEnded() {
    return this.#answerEnded;
  }

  get isOver() {
    return this.#isOver;
  }

  /** Sends the request. Throws if the RSocket library cannot encode it. */
  begin({ type, payload, requestN, isCompleted }) {
    const { requester } = this.#pod;
    this.#pod.streamBegins();
    let sender;
    try {
      if (type === 'requestResponse') sender = requester.requestResponse(payload, this);
      else if (type === 'requestStream') sender = requester.requestStream(payload, requestN, this);
      else if (type === 'requestChannel') sender = requester.requestChannel(payload, requestN, isCompleted, this);
      else sender = requester.fireAndForget(payload, this);
    } catch (error) {
      this.#end();
      throw error;
    }
    this.sender = sender;
  }

  onNext(payload, isLast) {
    if (this.#isOver) return;
    this.#owner.answered();
    if (isLast) this.#endAnswer();
    this.#owner.receiver.onNext(payload, isLast);
  }

  onComplete() {
    if (this.#isOver) return;
    this.#endAnswer();
    this.#owner.receiver.onComplete();
  }

  onError(error) {
    if (this.#isOver) return;
    this.#end();
    this.#owner.failed(error);
  }

  onExtension(extendedType, content, canBeIgnored) {
    this.#owner.receiver.onExtension(extendedType, content, canBeIgnored);
  }

  request(n) {
    this.#owner.receiver.request(n);
  }

  cancel() {
    this.endRequest();
    this.#owner.receiver.cancel();
  }

  /** The caller has sent the last payload of its request. */
  endRequest() {
    this.#requestEnded = true;
    this.#succeedIfDone();
  }

  /** The caller gave the request up: later events of the stream are ignored. */
  abandon() {
    if (!this.#isOver) this.#end();
  }

  #endAnswer() {
    this.#answerEnded = true;
    this.#succeedIfDone();
  }

  #succeedIfDone() {
    if (this.#isOver || !this.#answerEnded || !this.#requestEnded) return;
    this.#end();
    this.#owner.succeeded();
  }

  /** Ends the stream. The connection is notified before the receiver, because the receiver may start another call then. */
  #end() {
    this.#isOver = true;
    this.#pod.streamEnds();
  }
}

/**
 * Guards the receiver of a call: if it throws, only its call ends, and the error becomes an uncaught exception, as with any event listener.
 * The RSocket library would end the connection with every other call on it.
 */
export class GuardedSide {
  #receiver;
  #threw;

  constructor(receiver, threw) {
    this.#receiver = receiver;
    this.#threw = threw;
  }

  onNext(payload, isLast) {
    this.#tell(() => this.#receiver.onNext?.(payload, isLast));
  }

  onComplete() {
    this.#tell(() => this.#receiver.onComplete?.());
  }

  onError(error) {
    this.#tell(() => this.#receiver.onError?.(error));
  }

  onExtension(...extension) {
    this.#tell(() => this.#receiver.onExtension?.(...extension));
  }

  request(n) {
    this.#tell(() => this.#receiver.request?.(n));
  }

  cancel() {
    this.#tell(() => this.#receiver.cancel?.());
  }

  #tell(call) {
    try {
      call();
    } catch (error) {
      this.#threw();
      process.nextTick(() => {
        throw error;
      });
    }
  }
}

const answer = { outcome: outcomes.success, refused: false };
const lost = { outcome: outcomes.reset, refused: false };
const broken = { outcome: outcomes.protocol, refused: false };

const byCode = {
  // Every error that a handler emits has this code, including business errors.
  [ErrorCodes.APPLICATION_ERROR]: answer,
  [ErrorCodes.INVALID]: answer,
  // REJECTED is the only code that promises that nothing was processed.
  [ErrorCodes.REJECTED]: { outcome: outcomes.overload, refused: true },
  // The pod gave up halfway through the request.
  [ErrorCodes.CANCELED]: { outcome: outcomes.status, refused: false },
};

/** The first of the RSocket error codes that applications may define. */
const FIRST_OWN_CODE = 0x301;

/** Maps the error of a stream to the outcome for its pod. */
export function failedStream(error) {
  // The library's error for a lost connection has no code, and its RSocketError is not a distinct class at run time.
  const { code } = error;
  if (typeof code !== 'number') return lost;
  return byCode[code] ?? (code >= FIRST_OWN_CODE ? answer : broken);
}
