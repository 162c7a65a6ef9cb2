import { ErrorCodes, type Payload, type RSocketError } from 'rsocket-core';
import { type Outcome, outcomes } from '../../index.js';
import type { PodRSocket } from './connection.js';
import type { Side } from './options.js';

/** An RSocket request, kept so that it can be sent more than once. */
export interface Request {
  readonly type: 'fireAndForget' | 'requestResponse' | 'requestStream' | 'requestChannel' | 'metadataPush';
  readonly payload: Payload;
  /** How many payloads the caller requested before the first one arrived. */
  requestN: number;
  /** Whether the first payload that the caller sends on a channel is also its last. */
  isCompleted: boolean;
  readonly idempotent: boolean;
}

/** What a stream notifies besides passing payloads on to the receiver of its call. */
export interface StreamOwner {
  readonly receiver: Side;
  /** A payload of the response has arrived. */
  answered(): void;
  /** Both sides of the stream have ended; the receiver is notified afterwards. */
  succeeded(): void;
  /** The stream failed; the receiver has not been notified yet. */
  failed(error: Error): void;
}

/** One request on one RSocket connection: finds out when both sides of the stream have ended, and reports that to the connection. */
export class Stream implements Side {
  /** The library's side of the stream, to which the caller's payloads are passed. */
  sender!: Side;
  readonly #pod: PodRSocket;
  readonly #owner: StreamOwner;
  #answerEnded = false;
  #requestEnded: boolean;
  #isOver = false;

  constructor(pod: PodRSocket, request: Request, owner: StreamOwner) {
    this.#pod = pod;
    this.#owner = owner;
    this.#requestEnded = request.type !== 'requestChannel' || request.isCompleted;
  }

  /** Whether the receiver was notified of the end of the response. */
  get answerEnded(): boolean {
    return this.#answerEnded;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Sends the request. Throws if the RSocket library cannot encode it. */
  begin({ type, payload, requestN, isCompleted }: Request): void {
    const { requester } = this.#pod;
    this.#pod.streamBegins();
    let sender: Partial<Side>;
    try {
      if (type === 'requestResponse') sender = requester.requestResponse(payload, this);
      else if (type === 'requestStream') sender = requester.requestStream(payload, requestN, this);
      else if (type === 'requestChannel') sender = requester.requestChannel(payload, requestN, isCompleted, this);
      else sender = requester.fireAndForget(payload, this);
    } catch (error) {
      this.#end();
      throw error;
    }
    this.sender = sender as Side;
  }

  onNext(payload: Payload, isLast: boolean): void {
    if (this.#isOver) return;
    this.#owner.answered();
    if (isLast) this.#endAnswer();
    this.#owner.receiver.onNext(payload, isLast);
  }

  onComplete(): void {
    if (this.#isOver) return;
    this.#endAnswer();
    this.#owner.receiver.onComplete();
  }

  onError(error: Error): void {
    if (this.#isOver) return;
    this.#end();
    this.#owner.failed(error);
  }

  onExtension(extendedType: number, content: Buffer | null | undefined, canBeIgnored: boolean): void {
    this.#owner.receiver.onExtension(extendedType, content, canBeIgnored);
  }

  request(n: number): void {
    this.#owner.receiver.request(n);
  }

  cancel(): void {
    this.endRequest();
    this.#owner.receiver.cancel();
  }

  /** The caller has sent the last payload of its request. */
  endRequest(): void {
    this.#requestEnded = true;
    this.#succeedIfDone();
  }

  /** The caller gave the request up: later events of the stream are ignored. */
  abandon(): void {
    if (!this.#isOver) this.#end();
  }

  #endAnswer(): void {
    this.#answerEnded = true;
    this.#succeedIfDone();
  }

  #succeedIfDone(): void {
    if (this.#isOver || !this.#answerEnded || !this.#requestEnded) return;
    this.#end();
    this.#owner.succeeded();
  }

  /** Ends the stream. The connection is notified before the receiver, because the receiver may start another call then. */
  #end(): void {
    this.#isOver = true;
    this.#pod.streamEnds();
  }
}

/**
 * Guards the receiver of a call: if it throws, only its call ends, and the error becomes an uncaught exception, as with any event listener.
 * The RSocket library would end the connection with every other call on it.
 */
export class GuardedSide implements Side {
  readonly #receiver: Partial<Side>;
  readonly #threw: () => void;

  constructor(receiver: Partial<Side>, threw: () => void) {
    this.#receiver = receiver;
    this.#threw = threw;
  }

  onNext(payload: Payload, isLast: boolean): void {
    this.#tell(() => this.#receiver.onNext?.(payload, isLast));
  }

  onComplete(): void {
    this.#tell(() => this.#receiver.onComplete?.());
  }

  onError(error: Error): void {
    this.#tell(() => this.#receiver.onError?.(error));
  }

  onExtension(...extension: Parameters<Side['onExtension']>): void {
    this.#tell(() => this.#receiver.onExtension?.(...extension));
  }

  request(n: number): void {
    this.#tell(() => this.#receiver.request?.(n));
  }

  cancel(): void {
    this.#tell(() => this.#receiver.cancel?.());
  }

  #tell(call: () => void): void {
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

/** What the error of a stream means for its pod, and whether the pod refused the request before processing it. */
export interface FailedStream {
  readonly outcome: Outcome;
  readonly refused: boolean;
}

const answer: FailedStream = { outcome: outcomes.success, refused: false };
const lost: FailedStream = { outcome: outcomes.reset, refused: false };
const broken: FailedStream = { outcome: outcomes.protocol, refused: false };

const byCode: Readonly<Record<number, FailedStream>> = {
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
export function failedStream(error: Error): FailedStream {
  // The library's error for a lost connection has no code, and its RSocketError is not a distinct class at run time.
  const { code } = error as Partial<RSocketError>;
  if (typeof code !== 'number') return lost;
  return byCode[code] ?? (code >= FIRST_OWN_CODE ? answer : broken);
}
