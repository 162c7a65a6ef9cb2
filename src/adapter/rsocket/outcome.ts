import { ErrorCodes, type Payload, type RSocketError } from 'rsocket-core';
import { type Outcome, outcomes } from '../../index.js';
import type { PodRSocket } from './connection.js';
import type { Side } from './options.js';

/** A request, which may be sent more than once. */
export interface Request {
  readonly type: 'fireAndForget' | 'requestResponse' | 'requestStream' | 'requestChannel' | 'metadataPush';
  readonly payload: Payload;
  /** How many payloads its caller requested before the first one arrived. */
  requestN: number;
  /** Whether the first payload of a channel is its last. */
  isCompleted: boolean;
  readonly idempotent: boolean;
}

/** What a stream reports, besides passing payloads to the receiver of its call. */
export interface StreamOwner {
  readonly receiver: Side;
  /** A payload of the response arrived. */
  answered(): void;
  /** Both sides of the stream are done; its receiver learns that next. */
  succeeded(): void;
  /** The stream failed; the receiver does not know yet. */
  failed(error: Error): void;
}

/** One request on one RSocket connection: knows when both of its sides are done, and tells the connection. */
export class Stream implements Side {
  /** The side of the stream that the caller's payloads go to. */
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

  /** Whether the receiver got the end of the response. */
  get answerEnded(): boolean {
    return this.#answerEnded;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Sends the request. Throws if the library cannot encode it. */
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

  /** The caller gave up: later events are ignored. */
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

  /** Ends the stream. The connection learns that before the receiver, because the receiver may start another call then. */
  #end(): void {
    this.#isOver = true;
    this.#pod.streamEnds();
  }
}

/**
 * The receiver of a call. If it throws, its call ends and the error becomes an uncaught exception, as with any event listener. The
 * library would end the connection, with every other call on it.
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

/** What the error of a stream says about its pod, and whether the pod did nothing. */
export interface FailedStream {
  readonly outcome: Outcome;
  readonly refused: boolean;
}

const answer: FailedStream = { outcome: outcomes.success, refused: false };
const lost: FailedStream = { outcome: outcomes.reset, refused: false };
const broken: FailedStream = { outcome: outcomes.protocol, refused: false };

const byCode: Readonly<Record<number, FailedStream>> = {
  // This is the code of every error that a handler emits, business errors included.
  [ErrorCodes.APPLICATION_ERROR]: answer,
  [ErrorCodes.INVALID]: answer,
  // This is the only code that promises that nothing was processed.
  [ErrorCodes.REJECTED]: { outcome: outcomes.overload, refused: true },
  // The pod gave up halfway through the request.
  [ErrorCodes.CANCELED]: { outcome: outcomes.status, refused: false },
};

/** The first of the RSocket error codes that applications may define. */
const FIRST_OWN_CODE = 0x301;

/** The one table from errors of streams to outcomes. */
export function failedStream(error: Error): FailedStream {
  // The library's error for a lost connection has no code, and its RSocketError is not a distinct class at run time.
  const { code } = error as Partial<RSocketError>;
  if (typeof code !== 'number') return lost;
  return byCode[code] ?? (code >= FIRST_OWN_CODE ? answer : broken);
}
