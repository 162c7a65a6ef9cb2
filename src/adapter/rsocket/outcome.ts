import { ErrorCodes, type Payload, type RSocketError } from 'rsocket-core';
import { type Outcome, outcomes } from '../../index.js';
import type { PodRSocket } from './connection.js';
import type { Side } from './options.js';

/** A request as it is sent, perhaps more than once. */
export interface Request {
  readonly type: 'fireAndForget' | 'requestResponse' | 'requestStream' | 'requestChannel' | 'metadataPush';
  readonly payload: Payload;
  /** How many payloads its caller has asked for before the first came. */
  requestN: number;
  /** Whether the first payload of a channel is its last. */
  isCompleted: boolean;
  readonly idempotent: boolean;
}

/** What a stream tells besides what it hands on to the receiver of its call. */
export interface StreamOwner {
  readonly receiver: Side;
  /** A payload came. */
  answered(): void;
  /** Both sides are done; the receiver hears of it next. */
  succeeded(): void;
  /** The receiver has not heard of it. */
  failed(error: Error): void;
}

/** One request on one connection: knows when both of its sides are done, and tells the connection. */
export class Stream implements Side {
  /** What the caller sends goes here. */
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

  /** The receiver has had the last of the answer. */
  get answerEnded(): boolean {
    return this.#answerEnded;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Sends the request. Throws what the library cannot put into a frame. */
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

  /** The caller has sent its last. */
  endRequest(): void {
    this.#requestEnded = true;
    this.#succeedIfDone();
  }

  /** The caller gave up: nothing it is told after this is an end. */
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

  /** First of all: whoever hears of it may begin the next. */
  #end(): void {
    this.#isOver = true;
    this.#pod.streamEnds();
  }
}

/**
 * The receiver of a call. What it throws ends its call and is thrown where nobody catches it, as by any event listener:
 * the library would end the connection, and every other call on it.
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

/** What the error of a stream says of its pod, and whether the pod did nothing. */
export interface FailedStream {
  readonly outcome: Outcome;
  readonly refused: boolean;
}

const answer: FailedStream = { outcome: outcomes.success, refused: false };
const lost: FailedStream = { outcome: outcomes.reset, refused: false };
const broken: FailedStream = { outcome: outcomes.protocol, refused: false };

const byCode: Readonly<Record<number, FailedStream>> = {
  // The one code for whatever a handler emits as an error, those of the business included.
  [ErrorCodes.APPLICATION_ERROR]: answer,
  [ErrorCodes.INVALID]: answer,
  // The one code that promises that nothing was processed.
  [ErrorCodes.REJECTED]: { outcome: outcomes.overload, refused: true },
  // The pod gave up in the middle of it.
  [ErrorCodes.CANCELED]: { outcome: outcomes.status, refused: false },
};

/** Codes of applications begin here. */
const FIRST_OWN_CODE = 0x301;

/** The one table from errors of streams to outcomes. */
export function failedStream(error: Error): FailedStream {
  // What the library says when the connection is gone has no code. Its RSocketError is no class of its own at run time.
  const { code } = error as Partial<RSocketError>;
  if (typeof code !== 'number') return lost;
  return byCode[code] ?? (code >= FIRST_OWN_CODE ? answer : broken);
}
